#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "lathe/cpu/fp8.h"
#include "lathe/cpu/half.h"

namespace lathe {

inline constexpr int64_t kLanes = 8;

/// All bits of a lane set, or none.
struct maskv {
  __m256 m;
};
inline maskv operator&(maskv a, maskv b) { return {_mm256_and_ps(a.m, b.m)}; }
inline maskv operator|(maskv a, maskv b) { return {_mm256_or_ps(a.m, b.m)}; }
inline maskv operator~(maskv a) { return {_mm256_xor_ps(a.m, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
inline maskv all_lanes() { return {_mm256_castsi256_ps(_mm256_set1_epi32(-1))}; }
/// Lanes [0, n); all of them for n >= kLanes, none for n <= 0.
inline maskv first_lanes(int64_t n) {
  const int k = static_cast<int>(n > 8 ? 8 : n < 0 ? 0 : n);
  return {_mm256_castsi256_ps(
      _mm256_cmpgt_epi32(_mm256_set1_epi32(k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))};
}
inline bool any(maskv a) { return _mm256_movemask_ps(a.m) != 0; }
/// The index of the lowest set lane; kLanes if there is none.
inline int64_t first_set(maskv a) {
  return __builtin_ctz(static_cast<unsigned>(_mm256_movemask_ps(a.m)) | 0x100u);
}

/// kLanes fp32 values.
struct f32v {
  __m256 v;
  f32v() = default;
  f32v(__m256 x) : v(x) {}
  f32v(float x) : v(_mm256_set1_ps(x)) {}
};
inline f32v operator+(f32v a, f32v b) { return _mm256_add_ps(a.v, b.v); }
inline f32v operator-(f32v a, f32v b) { return _mm256_sub_ps(a.v, b.v); }
inline f32v operator*(f32v a, f32v b) { return _mm256_mul_ps(a.v, b.v); }
inline f32v operator/(f32v a, f32v b) { return _mm256_div_ps(a.v, b.v); }
inline f32v operator-(f32v a) { return _mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f)); }
inline f32v fma(f32v a, f32v b, f32v c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
/// A NaN in either operand gives NaN.
inline f32v max(f32v a, f32v b) {
  return _mm256_blendv_ps(_mm256_max_ps(a.v, b.v), a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
}
inline f32v min(f32v a, f32v b) {
  return _mm256_blendv_ps(_mm256_min_ps(a.v, b.v), a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
}
/// b where either is NaN: one instruction.
inline f32v fast_max(f32v a, f32v b) { return _mm256_max_ps(a.v, b.v); }
inline f32v fast_min(f32v a, f32v b) { return _mm256_min_ps(a.v, b.v); }
inline f32v abs(f32v a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v); }
inline f32v sqrt(f32v a) { return _mm256_sqrt_ps(a.v); }
inline f32v round(f32v a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline f32v floor(f32v a) { return _mm256_floor_ps(a.v); }
inline f32v ceil(f32v a) { return _mm256_ceil_ps(a.v); }
inline f32v trunc(f32v a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
/// |a| with the sign of b.
inline f32v copysign(f32v a, f32v b) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign, a.v), _mm256_and_ps(sign, b.v));
}
/// 1 / a within about 1 ulp for normal a below 2^126.
inline f32v fast_reciprocal(f32v a) { return _mm256_div_ps(_mm256_set1_ps(1.0f), a.v); }
/// 2^n for integral n in [-126, 127].
inline f32v exp2_integer(f32v n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23));
}
/// a * 2^n for integral n in [-252, 252].
inline f32v ldexp(f32v a, f32v n) {
  const f32v half = floor(n * f32v(0.5f));
  return a * exp2_integer(half) * exp2_integer(n - half);
}
/// x = m * 2^e with m in [2/3, 4/3), for positive finite x, denormal or not.
inline void split_log(f32v x, f32v& m, f32v& e) {
  const __m256 tiny = _mm256_cmp_ps(x.v, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
  const __m256 scaled = _mm256_blendv_ps(x.v, (x * f32v(0x1p23f)).v, tiny);
  const __m256i bits = _mm256_castps_si256(scaled);
  const __m256i shift = _mm256_and_si256(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f2aaaab)),
                                         _mm256_set1_epi32(static_cast<int>(0xff800000)));
  m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, shift));
  e = _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_srai_epi32(shift, 23)),
                    _mm256_and_ps(tiny, _mm256_set1_ps(23.0f)));
}

/// The bits of int8 numbers. What is shifted by no number of [0, 8) has lost them all.
inline f32v bitwise_and(f32v a, f32v b) {
  return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvttps_epi32(a.v), _mm256_cvttps_epi32(b.v)));
}
inline f32v bitwise_or(f32v a, f32v b) {
  return _mm256_cvtepi32_ps(_mm256_or_si256(_mm256_cvttps_epi32(a.v), _mm256_cvttps_epi32(b.v)));
}
inline f32v bitwise_xor(f32v a, f32v b) {
  return _mm256_cvtepi32_ps(_mm256_xor_si256(_mm256_cvttps_epi32(a.v), _mm256_cvttps_epi32(b.v)));
}
inline f32v bitwise_not(f32v a) { return f32v(-1.0f) - a; }
inline f32v shift_left(f32v a, f32v by) {
  const auto moved = _mm256_sllv_epi32(_mm256_cvttps_epi32(a.v), _mm256_cvttps_epi32(by.v));
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(moved, 24), 24));
}
inline f32v shift_right(f32v a, f32v by) {
  return _mm256_cvtepi32_ps(_mm256_srav_epi32(_mm256_cvttps_epi32(a.v), _mm256_cvttps_epi32(by.v)));
}
/// Of the power of two at or below |x|; -126 of what is smaller than normal numbers.
inline f32v exponent(f32v x) {
  const auto bits = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x.v), 23), _mm256_set1_epi32(255));
  return _mm256_cvtepi32_ps(
      _mm256_max_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(127)), _mm256_set1_epi32(-126)));
}
inline f32v floor_divide(f32v a, f32v b) { return floor(a / b); }

inline maskv lt(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline maskv le(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
inline maskv gt(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
inline maskv ge(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
inline maskv eq(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline maskv ne(f32v a, f32v b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
inline maskv is_nan(f32v a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
inline f32v select(maskv m, f32v yes, f32v no) { return _mm256_blendv_ps(no.v, yes.v, m.m); }

inline f32v load(const float* p) { return _mm256_loadu_ps(p); }
inline f32v load(const float* p, maskv m) { return _mm256_maskload_ps(p, _mm256_castps_si256(m.m)); }
inline void store(float* p, f32v a) { _mm256_storeu_ps(p, a.v); }
inline void store(float* p, f32v a, maskv m) { _mm256_maskstore_ps(p, _mm256_castps_si256(m.m), a.v); }
/// A non-temporal store; p must be 32-byte aligned. Ordered before later readers by the end of the
/// step.
inline void stream(float* p, f32v a) { _mm256_stream_ps(p, a.v); }
inline f32v load(const int32_t* p) {
  return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline f32v load(const int32_t* p, maskv m) {
  return _mm256_cvtepi32_ps(_mm256_maskload_epi32(p, _mm256_castps_si256(m.m)));
}
inline void store(int32_t* p, f32v a, maskv m) {
  _mm256_maskstore_epi32(p, _mm256_castps_si256(m.m), _mm256_cvttps_epi32(a.v));
}
inline void store(int32_t* p, f32v a) { store(p, a, all_lanes()); }
inline f32v load(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline f32v load(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
/// The low byte of each lane, as a whole number.
inline void store_bytes(void* p, f32v a) {
  const __m256i lanes = _mm256_and_si256(_mm256_cvttps_epi32(a.v), _mm256_set1_epi32(255));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
inline void store(int8_t* p, f32v a) { store_bytes(p, a); }
inline void store(uint8_t* p, f32v a) { store_bytes(p, a); }
inline f32v load(const half* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store(half* p, f32v a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline f32v load(const bfloat16* p) {
  const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
}
/// Rounds to nearest, ties to even.
inline void store(bfloat16* p, f32v a) {
  const __m256i whole = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(whole, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(whole, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(whole, _mm256_set1_epi32(0x400000));
  const __m256i kept = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan(a).m));
  const __m256i upper = _mm256_srli_epi32(kept, 16);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1)));
}
/// The bits of a half are those of an e5m2, then zeros; of an e4m3 divided by 2^8, its exponent and
/// mantissa after the second bit.
inline f32v load(const fp8e5m2* p) {
  const __m128i bits = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtph_ps(_mm_slli_epi16(bits, 8));
}
inline f32v load(const fp8e4m3* p) {
  const __m128i bits = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i seven = _mm_set1_epi16(0x7f), magnitude = _mm_and_si128(bits, seven);
  const __m128i sign = _mm_slli_epi16(_mm_andnot_si128(seven, bits), 8);
  const __m128i half = _mm_or_si128(_mm_slli_epi16(magnitude, 7), sign);
  const __m128i nan = _mm_or_si128(sign, _mm_set1_epi16(0x7e00));
  const __m128i kept = _mm_blendv_epi8(half, nan, _mm_cmpeq_epi16(magnitude, seven));
  return f32v(_mm256_cvtph_ps(kept)) * f32v(256.0f);
}
/// The code of each lane, as Fp8's constructor has it.
template <int kMantissa, bool kHasInfinity>
inline __m256i codes_of(f32v a) {
  using Format = Fp8<kMantissa, kHasInfinity>;
  constexpr int kCut = 23 - kMantissa;
  const auto all = [](uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); };
  const __m256i whole = _mm256_castps_si256(a.v), magnitude = _mm256_and_si256(whole, all(0x7fffffff));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, kCut), all(1));
  const __m256i above = _mm256_add_epi32(_mm256_add_epi32(magnitude, odd), all((1u << (kCut - 1)) - 1));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(above, kCut), all(Format::kLeastNormal));
  const __m256 beside = _mm256_set1_ps(Format::beside());
  const __m256i raised = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), beside));
  const __m256i small = _mm256_cmpgt_epi32(all(Format::kSmallestNormal), magnitude);
  __m256i code = _mm256_blendv_epi8(normal, _mm256_sub_epi32(raised, _mm256_castps_si256(beside)), small);
  code = _mm256_min_epu32(code, all(Format::kAbove));
  code = _mm256_blendv_epi8(code, all(Format::kNan), _mm256_castps_si256(is_nan(a).m));
  return _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi32(whole, 24), all(0x80)));
}
template <int kMantissa, bool kHasInfinity>
inline void store(Fp8<kMantissa, kHasInfinity>* p, f32v a) {
  const __m256i lanes = codes_of<kMantissa, kHasInfinity>(a);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
/// p[stride * lane].
inline f32v load_strided(const float* p, int64_t stride, maskv m) {
  const __m256i at = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                        _mm256_set1_epi32(static_cast<int>(stride)));
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, at, m.m, 4);
}

/// p[at], of whole numbers below 2^24.
inline f32v gather_at(const float* p, f32v at, maskv m) {
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, _mm256_cvttps_epi32(at.v), m.m, 4);
}
/// p[at[lane]]; NaN where that lies outside [0, extent), which is at most 2^31.
inline f32v gather(const float* p, const int32_t* at, maskv m, int64_t extent) {
  const __m256i index = _mm256_maskload_epi32(at, _mm256_castps_si256(m.m));
  const __m256i last = _mm256_set1_epi32(static_cast<int>(extent - 1));
  const __m256i out =
      _mm256_or_si256(_mm256_cmpgt_epi32(index, last), _mm256_cmpgt_epi32(_mm256_setzero_si256(), index));
  const __m256 in = _mm256_andnot_ps(_mm256_castsi256_ps(out), m.m);
  return _mm256_mask_i32gather_ps(_mm256_set1_ps(__builtin_nanf("")), p, index, in, 4);
}

inline float reduce_add(f32v a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float reduce_mul(f32v a) {
  __m128 s = _mm_mul_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_mul_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_mul_ss(s, _mm_movehdup_ps(s)));
}
/// Of lanes that are numbers.
inline float largest_lane(f32v a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
inline f32v lane_index() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
inline float first_lane(f32v a) { return _mm256_cvtss_f32(a.v); }
/// Lane i becomes lane i - N; the lowest N lanes become 0.
template <int N>
inline f32v shift_up(f32v a) {
  const __m256i from = _mm256_sub_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(N));
  const __m256 moved = _mm256_permutevar8x32_ps(a.v, from);
  return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_srai_epi32(from, 31)), moved);
}
inline f32v broadcast_last(f32v a) { return _mm256_permutevar8x32_ps(a.v, _mm256_set1_epi32(7)); }

}  // namespace lathe
