#pragma once

// The functions of elementwise formulas, so that one C expression serves CPU vectors, CPU scalars
// and GPU threads. As accurate as CUDA's own (at most 2 ulp in fp32).

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#else
#include <stdint.h>
#endif

#ifdef __CUDACC_RTC__
// g++'s builtins, which formulas use.
__device__ inline float __builtin_inff() { return __int_as_float(0x7f800000); }
__device__ inline float __builtin_nanf(const char*) { return __int_as_float(0x7fffffff); }
#endif

namespace lathe {

#define LATHE_UNARY(name)                                              \
  __device__ inline float name(float x) { return ::name##f(x); }       \
  __device__ inline double name(double x) { return ::name(x); }
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
__device__ inline float abs(float x) { return ::fabsf(x); }
__device__ inline double abs(double x) { return ::fabs(x); }
/// To nearest, ties to even.
__device__ inline float round(float x) { return ::rintf(x); }
__device__ inline double round(double x) { return ::rint(x); }
__device__ inline float pow(float x, float y) { return ::powf(x, y); }
__device__ inline double pow(double x, double y) { return ::pow(x, y); }
__device__ inline float atan2(float y, float x) { return ::atan2f(y, x); }
__device__ inline double atan2(double y, double x) { return ::atan2(y, x); }
/// The rest of a division with the dividend's sign.
__device__ inline float fmod(float a, float b) { return ::fmodf(a, b); }
__device__ inline double fmod(double a, double b) { return ::fmod(a, b); }
/// With the divisor's sign.
__device__ inline float remainder(float a, float b) {
  const float r = ::fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline double remainder(double a, double b) {
  const double r = ::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// By 0 whole numbers give 0; of the smallest one by -1 the machine's division overflows.
template <class T>
__device__ inline T whole_rest(T a, T b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
__device__ inline int32_t fmod(int32_t a, int32_t b) { return whole_rest(a, b); }
__device__ inline int64_t fmod(int64_t a, int64_t b) { return whole_rest(a, b); }
template <class T>
__device__ inline T whole_remainder(T a, T b) {
  const T r = whole_rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline int32_t remainder(int32_t a, int32_t b) { return whole_remainder(a, b); }
__device__ inline int64_t remainder(int64_t a, int64_t b) { return whole_remainder(a, b); }
template <class T>
__device__ inline T whole_quotient(T a, T b) {
  if (b == 0 || b == -1) return b * a;
  return a % b != 0 && (a < 0) != (b < 0) ? a / b - 1 : a / b;
}
__device__ inline int32_t floor_divide(int32_t a, int32_t b) { return whole_quotient(a, b); }
__device__ inline int64_t floor_divide(int64_t a, int64_t b) { return whole_quotient(a, b); }
/// Of the power of two at or below |x|; -126 of what is smaller than fp32's normal numbers.
__device__ inline float exponent(float x) {
  const int e = (__float_as_int(x) >> 23 & 255) - 127;
  return static_cast<float>(e < -126 ? -126 : e);
}
__device__ inline double exponent(double x) {
  const int e = (__double2hiint(x) >> 20 & 2047) - 1023;
  return e < -126 ? -126 : e;
}
/// Of int8 numbers that a float holds.
__device__ inline float floor_divide(float a, float b) { return ::floorf(__fdiv_rn(a, b)); }
/// Truncated, and within the type's range.
template <class T>
__device__ inline T to_int8(T x) {
  return x <= T(-128) ? T(-128) : x >= T(127) ? T(127) : static_cast<T>(static_cast<int>(x));
}
template <class T>
__device__ inline T to_uint8(T x) {
  return x <= T(0) ? T(0) : x >= T(255) ? T(255) : static_cast<T>(static_cast<int>(x));
}
template <class T>
__device__ inline int32_t to_int32(T x) {
  return x <= -0x1p31 ? -2147483647 - 1 : x >= 0x1p31 - 1 ? 2147483647 : static_cast<int32_t>(x);
}
template <class T>
__device__ inline int64_t to_int64(T x) {
  constexpr int64_t kMost = 9223372036854775807ll;
  return x < -0x1p63 ? -kMost - 1 : x >= 0x1p63 ? kMost : static_cast<int64_t>(x);
}
/// Of whole numbers, and of int8 ones that a float holds. What is shifted by no number of [0, bits)
/// has lost all its bits.
#define LATHE_BITWISE(name, op)                                                                 \
  __device__ inline int32_t name(int32_t a, int64_t b) { return a op static_cast<int32_t>(b); } \
  __device__ inline int64_t name(int64_t a, int64_t b) { return a op b; }                       \
  __device__ inline float name(float a, float b) {                                              \
    return static_cast<float>(static_cast<int32_t>(a) op static_cast<int32_t>(b));              \
  }
LATHE_BITWISE(bitwise_and, &)
LATHE_BITWISE(bitwise_or, |)
LATHE_BITWISE(bitwise_xor, ^)
#undef LATHE_BITWISE
__device__ inline int32_t bitwise_not(int32_t a) { return ~a; }
__device__ inline int64_t bitwise_not(int64_t a) { return ~a; }
__device__ inline float bitwise_not(float a) { return -1.0f - a; }
__device__ inline int32_t shift_left(int32_t a, int64_t by) {
  return by < 0 || by > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(a) << by);
}
__device__ inline int64_t shift_left(int64_t a, int64_t by) {
  return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
}
__device__ inline float shift_left(float a, float by) {
  return static_cast<float>(
      static_cast<int8_t>(shift_left(static_cast<int32_t>(a), static_cast<int64_t>(by))));
}
__device__ inline int32_t shift_right(int32_t a, int64_t by) { return a >> (by < 0 || by > 31 ? 31 : by); }
__device__ inline int64_t shift_right(int64_t a, int64_t by) { return a >> (by < 0 || by > 63 ? 63 : by); }
__device__ inline float shift_right(float a, float by) {
  return static_cast<float>(shift_right(static_cast<int32_t>(a), static_cast<int64_t>(by)));
}
__device__ inline int32_t popcount(int32_t a) { return __popc(static_cast<uint32_t>(a)); }
__device__ inline int64_t popcount(int64_t a) { return __popcll(static_cast<uint64_t>(a)); }
/// Modulo 2^32, and the upper half of the product of two unsigned numbers.
__device__ inline int32_t wrapping_add(int32_t a, int64_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
__device__ inline int32_t wrapping_mul(int32_t a, int64_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
__device__ inline int32_t mul_high(int32_t a, int64_t b) {
  return static_cast<int32_t>(__umulhi(static_cast<uint32_t>(a), static_cast<uint32_t>(b)));
}
__device__ inline float copysign(float x, float y) { return ::copysignf(x, y); }
__device__ inline double copysign(double x, double y) { return ::copysign(x, y); }
__device__ inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
__device__ inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
__device__ inline float rsqrt(float x) { return ::rsqrtf(x); }
__device__ inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }
__device__ inline double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }
/// A NaN in either operand gives NaN.
__device__ inline float max(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline double max(double a, double b) { return a > b || a != a ? a : b; }
__device__ inline float min(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline double min(double a, double b) { return a < b || a != a ? a : b; }
__device__ inline bool is_nan(float x) { return x != x; }
__device__ inline bool is_nan(double x) { return x != x; }
/// Integers are compared as such.
#define LATHE_COMPARE(name, op)                                    \
  template <class T>                                               \
  __device__ inline bool name(T a, T b) { return a op b; }         \
  __device__ inline bool name(float a, float b) { return a op b; } \
  __device__ inline bool name(double a, double b) { return a op b; }
LATHE_COMPARE(lt, <)
LATHE_COMPARE(le, <=)
LATHE_COMPARE(gt, >)
LATHE_COMPARE(ge, >=)
LATHE_COMPARE(eq, ==)
LATHE_COMPARE(ne, !=)
#undef LATHE_COMPARE
__device__ inline float select(bool m, float yes, float no) { return m ? yes : no; }
__device__ inline double select(bool m, double yes, double no) { return m ? yes : no; }
template <class T, class U>
__device__ inline auto select(bool m, T yes, U no) { return m ? yes : no; }

/// ceil(a / b) for a >= 0, b > 0.
__device__ constexpr int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// a / b and a % b for a >= 0, b > 0, in 32 bits if possible: 64-bit division takes several times
/// as long.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}
__device__ inline int64_t residue(int64_t a, int64_t b) { return a - quotient(a, b) * b; }
/// The least multiple of b that is >= a.
__device__ inline int64_t align(int64_t a, int64_t b) { return cdiv(a, b) * b; }

/// An address in the shared state space, as instructions take it.
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace lathe
