#pragma once

#include "lathe/cuda/lanes.cuh"

namespace lathe {

#define LATHE_OPERATOR(op)                                      \
  __device__ inline f32v operator op(const f32v& a, const f32v& b) {       \
    return each([&](int i) { return a.v[i] op b.v[i]; });       \
  }
LATHE_OPERATOR(+)
LATHE_OPERATOR(-)
LATHE_OPERATOR(*)
LATHE_OPERATOR(/)
#undef LATHE_OPERATOR
__device__ inline f32v operator-(const f32v& a) {
  return each([&](int i) { return -a.v[i]; });
}
#define LATHE_UNARY(name)                                       \
  __device__ inline f32v name(const f32v& a) {                             \
    return each([&](int i) { return lathe::name(a.v[i]); });    \
  }
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
LATHE_UNARY(exponent)
LATHE_UNARY(trunc)
LATHE_UNARY(round)
LATHE_UNARY(sqrt)
LATHE_UNARY(rsqrt)
LATHE_UNARY(sigmoid)
LATHE_UNARY(abs)
#undef LATHE_UNARY
__device__ inline f32v to_uint8(const f32v& a) {
  return each([&](int i) { return lathe::to_uint8(a.v[i]); });
}
__device__ inline f32v to_int8(const f32v& a) {
  return each([&](int i) { return lathe::to_int8(a.v[i]); });
}
__device__ inline f32v bitwise_not(const f32v& a) {
  return each([&](int i) { return lathe::bitwise_not(a.v[i]); });
}
#define LATHE_BINARY(name)                                              \
  __device__ inline f32v name(const f32v& a, const f32v& b) {                      \
    return each([&](int i) { return lathe::name(a.v[i], b.v[i]); });    \
  }
LATHE_BINARY(max)
LATHE_BINARY(min)
LATHE_BINARY(pow)
LATHE_BINARY(copysign)
LATHE_BINARY(atan2)
LATHE_BINARY(fmod)
LATHE_BINARY(remainder)
LATHE_BINARY(floor_divide)
LATHE_BINARY(bitwise_and)
LATHE_BINARY(bitwise_or)
LATHE_BINARY(bitwise_xor)
LATHE_BINARY(shift_left)
LATHE_BINARY(shift_right)
#undef LATHE_BINARY
/// May drop a NaN.
__device__ inline f32v fast_max(const f32v& a, const f32v& b) {
  return each([&](int i) { return ::fmaxf(a.v[i], b.v[i]); });
}
__device__ inline f32v fast_min(const f32v& a, const f32v& b) {
  return each([&](int i) { return ::fminf(a.v[i], b.v[i]); });
}
__device__ inline f32v fma(const f32v& a, const f32v& b, const f32v& c) {
  return each([&](int i) { return ::fmaf(a.v[i], b.v[i], c.v[i]); });
}
#define LATHE_COMPARE(name)                                             \
  __device__ inline maskv name(const f32v& a, const f32v& b) {                     \
    return each_flag([&](int i) { return lathe::name(a.v[i], b.v[i]); }); \
  }
LATHE_COMPARE(lt)
LATHE_COMPARE(le)
LATHE_COMPARE(gt)
LATHE_COMPARE(ge)
LATHE_COMPARE(eq)
LATHE_COMPARE(ne)
#undef LATHE_COMPARE
__device__ inline maskv is_nan(const f32v& a) {
  return each_flag([&](int i) { return a.v[i] != a.v[i]; });
}
__device__ inline maskv operator&(const maskv& a, const maskv& b) {
  return each_flag([&](int i) { return a.m[i] && b.m[i]; });
}
__device__ inline maskv operator|(const maskv& a, const maskv& b) {
  return each_flag([&](int i) { return a.m[i] || b.m[i]; });
}
__device__ inline maskv operator~(const maskv& a) {
  return each_flag([&](int i) { return !a.m[i]; });
}
__device__ inline f32v select(const maskv& m, const f32v& yes, const f32v& no) {
  return each([&](int i) { return m.m[i] ? yes.v[i] : no.v[i]; });
}
__device__ inline f32v select(bool m, const f32v& yes, const f32v& no) { return m ? yes : no; }

}  // namespace lathe
