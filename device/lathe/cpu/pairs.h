#pragma once

#include "lathe/cpu/vector.h"

// Pairs of bf16 as the bits of fp32 numbers: two neighbours along K of a matrix product, which one
// instruction multiplies and adds. Only dot_pairs computes with them; whatever moves fp32 moves
// them.

namespace lathe {

/// sum + a's first number times b's first + a's second times b's second, in each lane. Numbers and
/// results too small for normal ones may count as zero.
inline f32v dot_pairs(f32v a, f32v b, f32v sum) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  return _mm512_dpbf16_ps(sum.v, (__m512bh)a.v, (__m512bh)b.v);
#elif defined(__AVX512F__)
  const auto first = [](f32v x) {
    return f32v(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x.v), 16)));
  };
  const auto second = [](f32v x) {
    return f32v(_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(-65536))));
  };
  return fma(first(a), first(b), fma(second(a), second(b), sum));
#else
  const auto first = [](f32v x) {
    return f32v(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.v), 16)));
  };
  const auto second = [](f32v x) {
    return f32v(_mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(x.v), _mm256_set1_epi32(-65536))));
  };
  return fma(first(a), first(b), fma(second(a), second(b), sum));
#endif
}

/// The numbers p[0] and p[1].
inline float pair_at(const bfloat16* p) {
  float bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
}
/// p[0] and zero.
inline float half_pair_at(const bfloat16* p) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(p->bits));
}

/// p[0] and the number a row further, or zero if `rows` is 1.
inline float pair_across(const bfloat16* p, int64_t stride, int64_t rows) {
  const uint32_t high = rows > 1 ? p[stride].bits : 0;
  return __builtin_bit_cast(float, high << 16 | p->bits);
}

/// Pairs of numbers that follow each other; zeros behind the first `count` numbers.
inline f32v pairs_along(const bfloat16* p, int64_t count) {
  if (count >= 2 * kLanes) return load(reinterpret_cast<const float*>(p));
#if defined(__AVX512F__)
  const uint32_t first = count <= 0 ? 0 : (uint32_t{1} << count) - 1;
  return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(first, p));
#else
  alignas(32) bfloat16 numbers[2 * kLanes] = {};
  for (int64_t i = 0; i < count; ++i) numbers[i] = p[i];
  return load(reinterpret_cast<const float*>(numbers));
#endif
}

/// Pairs of a number and the one a row further, `stride` behind it, or zero if `rows` is 1.
inline f32v pairs_across(const bfloat16* p, int64_t stride, int64_t rows, maskv lanes) {
  const f32v low = load(p, lanes), high = rows > 1 ? load(p + stride, lanes) : f32v(0.0f);
#if defined(__AVX512F__)
  return _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low.v), 16), _mm512_castps_si512(high.v)));
#else
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(low.v), 16), _mm256_castps_si256(high.v)));
#endif
}

/// The same of every `step`th number.
inline f32v pairs_across_strided(const bfloat16* p, int64_t step, int64_t stride, int64_t rows, maskv lanes) {
#if defined(__AVX512F__)
  if (step == 2) {
    const __mmask32 even = _pdep_u32(lanes.m, 0x55555555u);
    const __m512i low = _mm512_maskz_loadu_epi16(even, p);
    const __m512i high = _mm512_maskz_loadu_epi16(rows > 1 ? even : 0, p + stride);
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
#endif
  alignas(64) float pairs[kLanes] = {}, on[kLanes];
  store(on, select(lanes, f32v(1.0f), f32v(0.0f)));
  for (int64_t i = 0; i < kLanes; ++i)
    if (on[i] != 0.0f) pairs[i] = pair_across(p + i * step, stride, rows);
  return load(pairs);
}

}  // namespace lathe
