#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "lathe/cpu/fp8.h"
#include "lathe/cpu/half.h"

namespace lathe {

inline constexpr int64_t kLanes = 16;

/// One bit a lane.
struct maskv {
  __mmask16 m;
};
inline maskv operator&(maskv a, maskv b) { return {static_cast<__mmask16>(a.m & b.m)}; }
inline maskv operator|(maskv a, maskv b) { return {static_cast<__mmask16>(a.m | b.m)}; }
inline maskv operator~(maskv a) { return {static_cast<__mmask16>(~a.m)}; }
inline maskv all_lanes() { return {0xffff}; }
/// Lanes [0, n); all of them for n >= kLanes, none for n <= 0.
inline maskv first_lanes(int64_t n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u)};
}
inline bool any(maskv a) { return a.m != 0; }
/// The index of the lowest set lane; kLanes if there is none.
inline int64_t first_set(maskv a) { return __builtin_ctz(a.m | 0x10000u); }

/// kLanes fp32 values.
struct f32v {
  __m512 v;
  f32v() = default;
  f32v(__m512 x) : v(x) {}
  f32v(float x) : v(_mm512_set1_ps(x)) {}
};
inline f32v operator+(f32v a, f32v b) { return _mm512_add_ps(a.v, b.v); }
inline f32v operator-(f32v a, f32v b) { return _mm512_sub_ps(a.v, b.v); }
inline f32v operator*(f32v a, f32v b) { return _mm512_mul_ps(a.v, b.v); }
inline f32v operator/(f32v a, f32v b) { return _mm512_div_ps(a.v, b.v); }
inline f32v operator-(f32v a) { return _mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f)); }
inline f32v fma(f32v a, f32v b, f32v c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
/// A NaN in either operand gives NaN.
inline f32v max(f32v a, f32v b) {
  return _mm512_mask_mov_ps(_mm512_max_ps(a.v, b.v), _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), a.v);
}
inline f32v min(f32v a, f32v b) {
  return _mm512_mask_mov_ps(_mm512_min_ps(a.v, b.v), _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), a.v);
}
/// b where either is NaN: one instruction.
inline f32v fast_max(f32v a, f32v b) { return _mm512_max_ps(a.v, b.v); }
inline f32v fast_min(f32v a, f32v b) { return _mm512_min_ps(a.v, b.v); }
inline f32v abs(f32v a) { return _mm512_abs_ps(a.v); }
inline f32v sqrt(f32v a) { return _mm512_sqrt_ps(a.v); }
inline f32v round(f32v a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline f32v floor(f32v a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline f32v ceil(f32v a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
inline f32v trunc(f32v a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
/// |a| with the sign of b.
inline f32v copysign(f32v a, f32v b) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(b.v), _mm512_castps_si512(a.v), 0xca));
}
/// 1 / a within about 1 ulp for normal a below 2^126.
inline f32v fast_reciprocal(f32v a) {
  const f32v r = _mm512_rcp14_ps(a.v);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(a.v, r.v, _mm512_set1_ps(1.0f)), r.v, r.v);
}
/// a * 2^n for integral n; overflow, underflow and denormals as in exact arithmetic.
inline f32v ldexp(f32v a, f32v n) { return _mm512_scalef_ps(a.v, n.v); }
/// x = m * 2^e with m in [2/3, 4/3), for positive finite x, denormal or not.
inline void split_log(f32v x, f32v& m, f32v& e) {
  e = _mm512_getexp_ps(x.v);
  m = _mm512_getmant_ps(x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
  const __mmask16 high = _mm512_cmp_ps_mask(m.v, _mm512_set1_ps(1.33333337f), _CMP_GE_OQ);
  m = _mm512_mask_mul_ps(m.v, high, m.v, _mm512_set1_ps(0.5f));
  e = _mm512_mask_add_ps(e.v, high, e.v, _mm512_set1_ps(1.0f));
}

/// The bits of int8 numbers. What is shifted by no number of [0, 8) has lost them all.
inline f32v bitwise_and(f32v a, f32v b) {
  return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvttps_epi32(a.v), _mm512_cvttps_epi32(b.v)));
}
inline f32v bitwise_or(f32v a, f32v b) {
  return _mm512_cvtepi32_ps(_mm512_or_si512(_mm512_cvttps_epi32(a.v), _mm512_cvttps_epi32(b.v)));
}
inline f32v bitwise_xor(f32v a, f32v b) {
  return _mm512_cvtepi32_ps(_mm512_xor_si512(_mm512_cvttps_epi32(a.v), _mm512_cvttps_epi32(b.v)));
}
inline f32v bitwise_not(f32v a) { return f32v(-1.0f) - a; }
inline f32v shift_left(f32v a, f32v by) {
  const auto moved = _mm512_sllv_epi32(_mm512_cvttps_epi32(a.v), _mm512_cvttps_epi32(by.v));
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(moved, 24), 24));
}
inline f32v shift_right(f32v a, f32v by) {
  return _mm512_cvtepi32_ps(_mm512_srav_epi32(_mm512_cvttps_epi32(a.v), _mm512_cvttps_epi32(by.v)));
}
/// Of the power of two at or below |x|; -126 of what is smaller than normal numbers.
inline f32v exponent(f32v x) { return _mm512_max_ps(_mm512_getexp_ps(x.v), _mm512_set1_ps(-126.0f)); }
inline f32v floor_divide(f32v a, f32v b) { return floor(a / b); }

inline maskv lt(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline maskv le(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline maskv gt(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
inline maskv ge(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
inline maskv eq(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline maskv ne(f32v a, f32v b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
inline maskv is_nan(f32v a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline f32v select(maskv m, f32v yes, f32v no) { return _mm512_mask_mov_ps(no.v, m.m, yes.v); }

inline f32v load(const float* p) { return _mm512_loadu_ps(p); }
inline f32v load(const float* p, maskv m) { return _mm512_maskz_loadu_ps(m.m, p); }
inline void store(float* p, f32v a) { _mm512_storeu_ps(p, a.v); }
inline void store(float* p, f32v a, maskv m) { _mm512_mask_storeu_ps(p, m.m, a.v); }
/// A non-temporal store; p must be 64-byte aligned. Ordered before later readers by the end of the
/// step.
inline void stream(float* p, f32v a) { _mm512_stream_ps(p, a.v); }
inline f32v load(const int32_t* p) { return _mm512_cvtepi32_ps(_mm512_loadu_si512(p)); }
inline f32v load(const int32_t* p, maskv m) { return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(m.m, p)); }
inline void store(int32_t* p, f32v a) { _mm512_storeu_si512(p, _mm512_cvttps_epi32(a.v)); }
inline void store(int32_t* p, f32v a, maskv m) { _mm512_mask_storeu_epi32(p, m.m, _mm512_cvttps_epi32(a.v)); }
inline f32v load(const int8_t* p, maskv m) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m.m, p)));
}
inline f32v load(const int8_t* p) { return load(p, all_lanes()); }
inline void store(int8_t* p, f32v a, maskv m) {
  _mm_mask_storeu_epi8(p, m.m, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(a.v)));
}
inline void store(int8_t* p, f32v a) { store(p, a, all_lanes()); }
inline f32v load(const uint8_t* p, maskv m) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m.m, p)));
}
inline f32v load(const uint8_t* p) { return load(p, all_lanes()); }
inline void store(uint8_t* p, f32v a, maskv m) {
  _mm_mask_storeu_epi8(p, m.m, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(a.v)));
}
inline void store(uint8_t* p, f32v a) { store(p, a, all_lanes()); }
inline f32v load(const half* p, maskv m) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m.m, p)); }
inline f32v load(const half* p) { return load(p, all_lanes()); }
inline void store(half* p, f32v a, maskv m) {
  _mm256_mask_storeu_epi16(p, m.m, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store(half* p, f32v a) { store(p, a, all_lanes()); }
inline f32v load(const bfloat16* p, maskv m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m.m, p)), 16));
}
inline f32v load(const bfloat16* p) {
  const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}
/// Bits of bf16, rounded to nearest, ties to even.
inline __m256i rounded_bf16(f32v a) {
#if defined(__AVX512BF16__)
  if (__builtin_expect(_mm512_fpclass_ps_mask(a.v, 0x20) == 0, 1))  // the instruction takes denormals for 0
    return (__m256i)_mm512_cvtneps_pbh(a.v);
#endif
  const __m512i whole = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(whole, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(whole, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i kept = _mm512_mask_or_epi32(rounded, is_nan(a).m, whole, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}
inline void store(bfloat16* p, f32v a, maskv m) { _mm256_mask_storeu_epi16(p, m.m, rounded_bf16(a)); }
inline void store(bfloat16* p, f32v a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded_bf16(a));
}
/// The bits of a half are those of an e5m2, then zeros; of an e4m3 divided by 2^8, its exponent and
/// mantissa after the second bit.
inline f32v load(const fp8e5m2* p, maskv m) {
  const __m256i bits = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(m.m, p));
  return _mm512_cvtph_ps(_mm256_slli_epi16(bits, 8));
}
inline f32v load(const fp8e5m2* p) { return load(p, all_lanes()); }
inline f32v load(const fp8e4m3* p, maskv m) {
  const __m256i bits = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(m.m, p)), seven = _mm256_set1_epi16(0x7f);
  const __m256i magnitude = _mm256_and_si256(bits, seven);
  const __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(seven, bits), 8);
  const __m256i half = _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign);
  const __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00));
  const __m256i kept = _mm256_mask_mov_epi16(half, _mm256_cmpeq_epi16_mask(magnitude, seven), nan);
  return f32v(_mm512_cvtph_ps(kept)) * f32v(256.0f);
}
inline f32v load(const fp8e4m3* p) { return load(p, all_lanes()); }
/// The code of each lane, as Fp8's constructor has it.
template <int kMantissa, bool kHasInfinity>
inline __m512i codes_of(f32v a) {
  using Format = Fp8<kMantissa, kHasInfinity>;
  constexpr int kCut = 23 - kMantissa;
  const auto all = [](uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); };
  const __m512i whole = _mm512_castps_si512(a.v), magnitude = _mm512_and_si512(whole, all(0x7fffffff));
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(magnitude, kCut), all(1));
  const __m512i above = _mm512_add_epi32(_mm512_add_epi32(magnitude, odd), all((1u << (kCut - 1)) - 1));
  const __m512i normal = _mm512_sub_epi32(_mm512_srli_epi32(above, kCut), all(Format::kLeastNormal));
  const __m512 beside = _mm512_set1_ps(Format::beside());
  const __m512i raised = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(magnitude), beside));
  const __mmask16 small = _mm512_cmplt_epu32_mask(magnitude, all(Format::kSmallestNormal));
  __m512i code = _mm512_mask_sub_epi32(normal, small, raised, _mm512_castps_si512(beside));
  code = _mm512_min_epu32(code, all(Format::kAbove));
  code = _mm512_mask_mov_epi32(code, is_nan(a).m, all(Format::kNan));
  return _mm512_or_si512(code, _mm512_and_si512(_mm512_srli_epi32(whole, 24), all(0x80)));
}
template <int kMantissa, bool kHasInfinity>
inline void store(Fp8<kMantissa, kHasInfinity>* p, f32v a, maskv m) {
  _mm_mask_storeu_epi8(p, m.m, _mm512_cvtepi32_epi8(codes_of<kMantissa, kHasInfinity>(a)));
}
template <int kMantissa, bool kHasInfinity>
inline void store(Fp8<kMantissa, kHasInfinity>* p, f32v a) {
  store(p, a, all_lanes());
}
/// p[stride * lane]. Stride 2 takes two loads and a shuffle, others gather.
inline f32v load_strided(const float* p, int64_t stride, maskv m) {
  if (stride == 2) {
    const unsigned spread = _pdep_u32(m.m, 0x55555555u);
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(spread), p);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(spread >> 16), p + 16);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(low, even, high);
  }
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride)));
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m.m, at, p, 4);
}

/// p[at], of whole numbers below 2^24.
inline f32v gather_at(const float* p, f32v at, maskv m) {
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m.m, _mm512_cvttps_epi32(at.v), p, 4);
}
/// p[at[lane]]; NaN where that lies outside [0, extent), which is at most 2^31.
inline f32v gather(const float* p, const int32_t* at, maskv m, int64_t extent) {
  const __m512i index = _mm512_maskz_loadu_epi32(m.m, at);
  const __m512i end = _mm512_set1_epi32(static_cast<int>(static_cast<uint32_t>(extent)));
  const __mmask16 in = _mm512_mask_cmplt_epu32_mask(m.m, index, end);
  return _mm512_mask_i32gather_ps(_mm512_set1_ps(__builtin_nanf("")), in, index, p, 4);
}

inline float reduce_add(f32v a) { return _mm512_reduce_add_ps(a.v); }
inline float reduce_mul(f32v a) { return _mm512_reduce_mul_ps(a.v); }
/// Of lanes that are numbers.
inline float largest_lane(f32v a) { return _mm512_reduce_max_ps(a.v); }
inline f32v lane_index() { return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0); }
inline float first_lane(f32v a) { return _mm512_cvtss_f32(a.v); }
/// Lane i becomes lane i - N; the lowest N lanes become 0.
template <int N>
inline f32v shift_up(f32v a) {
  return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(a.v), _mm512_setzero_si512(), 16 - N));
}
inline f32v broadcast_last(f32v a) { return _mm512_permutexvar_ps(_mm512_set1_epi32(15), a.v); }

}  // namespace lathe
