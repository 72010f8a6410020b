#pragma once

#include "lathe/cpu/scalar_math.h"
#include "lathe/cpu/vector_math.h"

namespace lathe {

#if defined(__AVX512F__)
/// x^y of eight lanes for x > 0 in fp64: 2^(y log2 x), relative error below 2^-28.
inline __m256 pow_positive(__m256 x, __m256 y) {
  const __m512d one = _mm512_set1_pd(1.0);
  const __m512d wide = _mm512_cvtps_pd(x);
  const __m512d e = _mm512_add_pd(_mm512_getexp_pd(_mm512_mul_pd(wide, _mm512_set1_pd(0.75))), one);
  const __m512d m = _mm512_scalef_pd(wide, _mm512_sub_pd(_mm512_setzero_pd(), e));
  const __m512d s = _mm512_div_pd(_mm512_sub_pd(m, one), _mm512_add_pd(m, one));
  const __m512d q = _mm512_mul_pd(s, s);
  __m512d p = _mm512_set1_pd(1.0 / 17);
  for (int k = 15; k >= 1; k -= 2) p = _mm512_fmadd_pd(p, q, _mm512_set1_pd(1.0 / k));
  const __m512d log2x = _mm512_fmadd_pd(_mm512_mul_pd(p, s), _mm512_set1_pd(2.88539008177792681), e);
  __m512d t = _mm512_mul_pd(log2x, _mm512_cvtps_pd(y));
  t = _mm512_max_pd(_mm512_set1_pd(-200.0), _mm512_min_pd(_mm512_set1_pd(200.0), t));
  const __m512d n = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512d r = _mm512_mul_pd(_mm512_sub_pd(t, n), _mm512_set1_pd(0.693147180559945309));
  __m512d g = one;
  for (int k = 10; k >= 1; --k) g = _mm512_fmadd_pd(_mm512_mul_pd(g, r), _mm512_set1_pd(1.0 / k), one);
  return _mm512_cvtpd_ps(_mm512_scalef_pd(g, n));
}

/// 1 ulp; the special cases of C's powf, but for a signed zero to an odd negative power.
inline f32v pow(f32v x, f32v y) {
  const f32v a = abs(x);
  const __m256 low = pow_positive(_mm512_castps512_ps256(a.v), _mm512_castps512_ps256(y.v));
  const __m256 high = pow_positive(_mm512_extractf32x8_ps(a.v, 1), _mm512_extractf32x8_ps(y.v, 1));
  f32v r = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  r = select(eq(a, 0.0f), select(lt(y, 0.0f), f32v(kInfinity), f32v(0.0f)), r);
  r = select(eq(a, kInfinity), select(lt(y, 0.0f), f32v(0.0f), f32v(kInfinity)), r);
  const f32v half = y * f32v(0.5f);
  const maskv odd = eq(floor(y), y) & ne(floor(half), half) & lt(abs(y), kInfinity);
  r = select(lt(x, 0.0f) & odd, -r, r);
  r = select(lt(x, 0.0f) & gt(x, -kInfinity) & ne(floor(y), y), f32v(__builtin_nanf("")), r);
  r = select(is_nan(x) | is_nan(y), x + y, r);
  const maskv unit = eq(x, -1.0f) & eq(abs(y), kInfinity);
  return select(eq(y, 0.0f) | eq(x, 1.0f) | unit, f32v(1.0f), r);
}
#endif

/// A scalar function lane by lane.
template <class F>
inline f32v each_lane(f32v x, f32v y, F f) {
  alignas(64) float a[kLanes], b[kLanes];
  store(a, x);
  store(b, y);
  for (int64_t i = 0; i < kLanes; ++i) a[i] = f(a[i], b[i]);
  return load(a);
}
#if !defined(__AVX512F__)
inline f32v pow(f32v x, f32v y) {
  return each_lane(x, y, [](float a, float b) { return __builtin_powf(a, b); });
}
#endif

/// The rest of a division with the dividend's sign, exact. The rounded quotient may be one too
/// large.
inline f32v fmod(f32v a, f32v b) {
  const f32v q = trunc(a / b);
  f32v r = fma(-q, b, a);
  r = select((lt(r, 0.0f) & gt(a, 0.0f)) | (gt(r, 0.0f) & lt(a, 0.0f)), r + copysign(abs(b), a), r);
  if (!any(~lt(abs(q), 8388608.0f))) return r;
  return each_lane(a, b, [](float x, float y) { return __builtin_fmodf(x, y); });
}
/// With the divisor's sign.
inline f32v remainder(f32v a, f32v b) {
  const f32v r = fmod(a, b);
  return select((lt(r, 0.0f) & gt(b, 0.0f)) | (gt(r, 0.0f) & lt(b, 0.0f)), r + b, r);
}

/// sin for quadrant shift 0, cos for 1. 2 ulp for |x| <= 2^15, where three-part reduction is exact
/// enough; libm beyond.
template <int kShift>
inline f32v sine(f32v x) {
  const f32v q = round(x * f32v(0.636619747f));
  f32v r = fma(q, f32v(-1.57079601e+00f), x);
  r = fma(q, f32v(-3.13916473e-07f), r);
  r = fma(q, f32v(-5.39030253e-15f), r);
  const f32v s = r * r;
  f32v sn = f32v(2.86567956e-6f);
  sn = fma(sn, s, -1.98559923e-4f);
  sn = fma(sn, s, 8.33338592e-3f);
  sn = fma(sn, s, -1.66666672e-1f);
  sn = fma(sn * s, r, r);
  f32v cs = f32v(2.44677067e-5f);
  cs = fma(cs, s, -1.38877297e-3f);
  cs = fma(cs, s, 4.16666567e-2f);
  cs = fma(cs, s, -0.5f);
  cs = fma(cs, s, 1.0f);
  const f32v k = q + f32v(static_cast<float>(kShift));
  const f32v quarter = k - floor(k * f32v(0.25f)) * f32v(4.0f);
  f32v y = select(eq(quarter, 1.0f) | eq(quarter, 3.0f), cs, sn);
  y = select(ge(quarter, 2.0f), -y, y);
  if (!any(~le(abs(x), 32768.0f))) return y;
  return each_lane(x, x, [](float a, float) { return kShift != 0 ? __builtin_cosf(a) : __builtin_sinf(a); });
}
inline f32v sin(f32v x) { return sine<0>(x); }
inline f32v cos(f32v x) { return sine<1>(x); }
/// 3 ulp where those are 2.
inline f32v tan(f32v x) { return sin(x) / cos(x); }

}  // namespace lathe
