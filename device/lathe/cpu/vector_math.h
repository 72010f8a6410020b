#pragma once

#include "lathe/cpu/vector.h"

namespace lathe {

// Coefficients: minimax fits in fp32 with FMA after N. Juffa's published implementations; measured
// errors are in docs/catalogue.md and asserted by tests/policy/vector_math_test.cpp.

inline constexpr float kInfinity = __builtin_inff();

/// x = n * ln2 + r, |r| <= ln2 / 2, for |x| < 2^15.
inline f32v reduce_ln2(f32v x, f32v& n) {
  n = round(x * f32v(1.44269504f));
  return fma(n, f32v(-1.42860677e-6f), fma(n, f32v(-6.93145752e-1f), x));
}

/// 1 ulp; 0 below -103.97, infinity above 88.73.
inline f32v exp(f32v x) {
  f32v n;
  const f32v r = reduce_ln2(fast_max(f32v(-104.0f), fast_min(f32v(89.0f), x)), n);
  f32v p = f32v(1.37805939e-3f);
  p = fma(p, r, 8.37312452e-3f);
  p = fma(p, r, 4.16695364e-2f);
  p = fma(p, r, 1.66664720e-1f);
  p = fma(p, r, 4.99999851e-1f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  return ldexp(p, n);
}

inline f32v exp2(f32v x) {
  x = fast_max(f32v(-151.0f), fast_min(f32v(129.0f), x));
  const f32v n = round(x);
  const f32v r = (x - n) * f32v(6.93147182e-1f);
  f32v p = f32v(1.37805939e-3f);
  p = fma(p, r, 8.37312452e-3f);
  p = fma(p, r, 4.16695364e-2f);
  p = fma(p, r, 1.66664720e-1f);
  p = fma(p, r, 4.99999851e-1f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  return ldexp(p, n);
}

/// exp(x) - 1 without cancellation.
inline f32v expm1(f32v x) {
  f32v n;
  const f32v r = reduce_ln2(fast_max(f32v(-30.0f), fast_min(f32v(88.7f), x)), n);
  f32v p = f32v(1.98423862e-4f);
  p = fma(p, r, 1.39304332e-3f);
  p = fma(p, r, 8.33333377e-3f);
  p = fma(p, r, 4.16666470e-2f);
  p = fma(p, r, 1.66666667e-1f);
  p = fma(p, r, 5.00000000e-1f);
  p = fma(p, r * r, r);
  const f32v half_scale = ldexp(0.5f, n);
  const f32v y = fma(p, half_scale, half_scale - f32v(0.5f));
  return select(gt(x, 88.7f), exp(x), select(eq(x, 0.0f), x, y + y));
}

/// 1 ulp.
inline f32v log(f32v x) {
  f32v m, e;
  split_log(x, m, e);
  m = m - f32v(1.0f);
  const f32v s = m * m;
  f32v r = f32v(-0.130310059f);
  f32v t = f32v(0.140869141f);
  r = fma(r, s, -0.121483710f);
  t = fma(t, s, 0.139814854f);
  r = fma(r, s, -0.166846126f);
  t = fma(t, s, 0.200120345f);
  r = fma(r, s, -0.249996200f);
  r = fma(t, m, r);
  r = fma(r, m, 0.333331972f);
  r = fma(r, m, -0.5f);
  r = fma(r, s, m);
  r = fma(e, 0.693147182f, r);
  r = select(gt(x, 0.0f) & lt(x, kInfinity), r, x + x);
  r = select(lt(x, 0.0f), f32v(__builtin_nanf("")), r);
  return select(eq(x, 0.0f), f32v(-kInfinity), r);
}

inline f32v log2(f32v x) { return log(x) * f32v(1.44269504f); }

/// 2 ulp: log(u) plus a correction for the rounding of u = 1 + x.
inline f32v log1p(f32v x) {
  const f32v u = x + f32v(1.0f);
  const f32v lost = x - (u - f32v(1.0f));
  const f32v y = log(u) + lost / u;
  return select(eq(x, 0.0f) | eq(x, kInfinity), x, select(eq(u, 0.0f), f32v(-kInfinity), y));
}

/// 2 ulp, also for tiny arguments.
inline f32v sigmoid(f32v x) {
  const f32v e = exp(-abs(x));
  const f32v r = fast_reciprocal(e + f32v(1.0f));
  return select(lt(x, 0.0f), e * r, r);
}

/// 2 ulp.
inline f32v tanh(f32v x) {
  const f32v t = abs(x);
  const f32v s = x * x;
  f32v small = f32v(-6.61022784e-3f);
  small = fma(small, s, 2.13093887e-2f);
  small = fma(small, s, -5.39094288e-2f);
  small = fma(small, s, 1.33331137e-1f);
  small = fma(small, s, -3.33333320e-1f);
  small = fma(small * s, x, x);
  const f32v e = exp(fast_min(f32v(20.0f), t + t));
  const f32v large = fma(f32v(-2.0f), fast_reciprocal(e + f32v(1.0f)), 1.0f);
  return select(lt(t, 0.55f), small, copysign(large, x));
}

/// 5 ulp: the rational fit of Eigen and XLA, odd over even, where erf does not yet round to 1.
inline f32v erf(f32v x) {
  const f32v t = fast_max(f32v(-4.0f), fast_min(f32v(4.0f), x));
  const f32v s = t * t;
  f32v p = f32v(-2.72614225801306e-10f);
  p = fma(p, s, 2.77068142495902e-08f);
  p = fma(p, s, -2.10102402082508e-06f);
  p = fma(p, s, -5.69250639462346e-05f);
  p = fma(p, s, -7.34990630326855e-04f);
  p = fma(p, s, -2.95459980854025e-03f);
  p = fma(p, s, -1.60960333262415e-02f);
  f32v q = f32v(-1.45660718464996e-05f);
  q = fma(q, s, -2.13374055278905e-04f);
  q = fma(q, s, -1.68282697438203e-03f);
  q = fma(q, s, -7.37332916720468e-03f);
  q = fma(q, s, -1.42647390514189e-02f);
  return select(gt(abs(x), 3.8f), copysign(1.0f, x), t * (p * fast_reciprocal(q)));
}

/// 3 ulp: the arc tangent of the smaller magnitude over the larger one, unfolded into four
/// quadrants.
inline f32v atan2(f32v y, f32v x) {
  const f32v a = abs(x), b = abs(y);
  const f32v large = fast_max(a, b), ratio = fast_min(a, b) / large;
  const f32v t = select(eq(large, 0.0f), 0.0f, select(eq(a, b), f32v(1.0f), ratio));
  const f32v s = t * t;
  f32v p = f32v(2.78569828e-3f);
  p = fma(p, s, -1.58660226e-2f);
  p = fma(p, s, 4.24722321e-2f);
  p = fma(p, s, -7.49753043e-2f);
  p = fma(p, s, 1.06448799e-1f);
  p = fma(p, s, -1.42070308e-1f);
  p = fma(p, s, 1.99934542e-1f);
  p = fma(p, s, -3.33331466e-1f);
  p = fma(p * s, t, t);
  p = select(gt(b, a), (f32v(1.57079637f) - p) - f32v(4.37113883e-8f), p);
  p = select(lt(copysign(1.0f, x), 0.0f), (f32v(3.14159274f) - p) - f32v(-8.74227766e-8f), p);
  return select(is_nan(x) | is_nan(y), x + y, copysign(p, y));
}

/// 2 ulp.
inline f32v atan(f32v x) { return atan2(x, 1.0f); }
/// The root of 1 - x^2 without cancellation.
inline f32v other_leg(f32v x) { return sqrt((f32v(1.0f) - x) * (f32v(1.0f) + x)); }
/// 3 ulp, and so is acos.
inline f32v asin(f32v x) { return atan2(x, other_leg(x)); }
inline f32v acos(f32v x) { return atan2(other_leg(x), x); }

/// exp(x) / 2 where exp(x) itself may be infinite.
inline f32v half_exp(f32v x) {
  const f32v root = exp(x * f32v(0.5f));
  return f32v(0.5f) * root * root;
}
/// 3 ulp, and so is cosh.
inline f32v sinh(f32v x) {
  const f32v t = abs(x), e = expm1(t);
  const f32v y = f32v(0.5f) * (e + e / (e + f32v(1.0f)));
  return copysign(select(gt(t, 80.0f), half_exp(t), y), x);
}
inline f32v cosh(f32v x) {
  const f32v t = abs(x), e = exp(t);
  return select(gt(t, 80.0f), half_exp(t), f32v(0.5f) * e + f32v(0.5f) / e);
}

/// Truncated, and within the type's range.
inline f32v to_uint8(f32v x) { return trunc(fast_min(fast_max(x, 0.0f), 255.0f)); }
inline f32v to_int8(f32v x) { return trunc(fast_min(fast_max(x, -128.0f), 127.0f)); }

/// 1 / sqrt(x), correctly rounded twice.
inline f32v rsqrt(f32v x) { return f32v(1.0f) / sqrt(x); }

}  // namespace lathe
