#pragma once

#include <stdint.h>

namespace lathe {

// Scalar versions with libm, so that one C expression serves scalars and vectors.
#define LATHE_UNARY(name)                                       \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
LATHE_UNARY(exp)
LATHE_UNARY(exp2)
LATHE_UNARY(expm1)
LATHE_UNARY(log)
LATHE_UNARY(log2)
LATHE_UNARY(log1p)
LATHE_UNARY(tanh)
LATHE_UNARY(erf)
LATHE_UNARY(sin)
LATHE_UNARY(cos)
LATHE_UNARY(tan)
LATHE_UNARY(asin)
LATHE_UNARY(acos)
LATHE_UNARY(atan)
LATHE_UNARY(sinh)
LATHE_UNARY(cosh)
LATHE_UNARY(floor)
LATHE_UNARY(ceil)
LATHE_UNARY(trunc)
LATHE_UNARY(sqrt)
#undef LATHE_UNARY
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
/// To nearest, ties to even.
inline float round(float x) { return __builtin_rintf(x); }
inline double round(double x) { return __builtin_rint(x); }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline float atan2(float y, float x) { return __builtin_atan2f(y, x); }
inline double atan2(double y, double x) { return __builtin_atan2(y, x); }
/// The rest of a division with the dividend's sign.
inline float fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline double fmod(double a, double b) { return __builtin_fmod(a, b); }
inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class T>
concept Real = __is_same(T, float) || __is_same(T, double);
template <Real T>
inline T rsqrt(T x) {
  return T(1) / sqrt(x);
}
template <Real T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
/// The rest of a division with the divisor's sign.
template <Real T>
inline T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// Of the power of two at or below |x|; -126 of what is smaller than fp32's normal numbers.
inline float exponent(float x) {
  const auto e = static_cast<int32_t>(__builtin_bit_cast(uint32_t, x) >> 23 & 255) - 127;
  return static_cast<float>(e < -126 ? -126 : e);
}
inline double exponent(double x) {
  const auto e = static_cast<int32_t>(__builtin_bit_cast(uint64_t, x) >> 52 & 2047) - 1023;
  return e < -126 ? -126 : e;
}
/// Of int8 numbers that a float holds.
inline float floor_divide(float a, float b) { return floor(a / b); }
/// Truncated, and within the type's range.
template <Real T>
inline T to_int8(T x) {
  return x <= T(-128) ? T(-128) : x >= T(127) ? T(127) : trunc(x);
}
template <Real T>
inline T to_uint8(T x) {
  return x <= T(0) ? T(0) : x >= T(255) ? T(255) : trunc(x);
}
/// The bits of an int8 that a float holds. What is shifted by no number of [0, 8) has lost them
/// all.
inline float bitwise_and(float a, float b) {
  return static_cast<float>(static_cast<int32_t>(a) & static_cast<int32_t>(b));
}
inline float bitwise_or(float a, float b) {
  return static_cast<float>(static_cast<int32_t>(a) | static_cast<int32_t>(b));
}
inline float bitwise_xor(float a, float b) {
  return static_cast<float>(static_cast<int32_t>(a) ^ static_cast<int32_t>(b));
}
inline float bitwise_not(float a) { return -1.0f - a; }
inline float shift_left(float a, float by) {
  if (!(by >= 0 && by < 8)) return 0;
  return static_cast<float>(
      static_cast<int8_t>(static_cast<uint32_t>(static_cast<int32_t>(a)) << static_cast<int32_t>(by)));
}
inline float shift_right(float a, float by) {
  return static_cast<float>(static_cast<int32_t>(a) >> (by >= 0 && by < 8 ? static_cast<int32_t>(by) : 7));
}
/// A NaN in either operand gives NaN.
inline float max(float a, float b) { return a > b || a != a ? a : b; }
inline double max(double a, double b) { return a > b || a != a ? a : b; }
inline float min(float a, float b) { return a < b || a != a ? a : b; }
inline double min(double a, double b) { return a < b || a != a ? a : b; }
template <Real T>
inline bool is_nan(T x) {
  return x != x;
}
#define LATHE_COMPARE(name, op)                         \
  inline bool name(float a, float b) { return a op b; } \
  inline bool name(double a, double b) { return a op b; }
LATHE_COMPARE(lt, <)
LATHE_COMPARE(le, <=)
LATHE_COMPARE(gt, >)
LATHE_COMPARE(ge, >=)
LATHE_COMPARE(eq, ==)
LATHE_COMPARE(ne, !=)
#undef LATHE_COMPARE
inline float select(bool m, float yes, float no) { return m ? yes : no; }
inline double select(bool m, double yes, double no) { return m ? yes : no; }

}  // namespace lathe
