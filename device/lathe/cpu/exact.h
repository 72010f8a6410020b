#pragma once

#include "lathe/cpu/scalar_math.h"

// Whole numbers and fp64, one value at a time: what kernels do with vectors of fp32 they do with
// these, and the compiler makes vectors of them.

namespace lathe {

template <class T>
concept Whole = __is_same(T, int32_t) || __is_same(T, int64_t);

template <Whole T>
inline T max(T a, T b) {
  return a > b ? a : b;
}
template <Whole T>
inline T min(T a, T b) {
  return a < b ? a : b;
}
/// The smallest number stays as it is.
inline int32_t bitwise_negated(int32_t x) { return static_cast<int32_t>(0u - static_cast<uint32_t>(x)); }
inline int64_t bitwise_negated(int64_t x) {
  return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(x));
}
template <Whole T>
inline T abs(T x) {
  return x < 0 ? bitwise_negated(x) : x;
}
/// Of the smallest number by -1 the machine's division traps, and of any by 0.
template <Whole T>
inline T fmod(T a, T b) {
  return b == -1 || b == 0 ? 0 : a % b;
}
template <Whole T>
inline T floor_divide(T a, T b) {
  if (b == -1) return bitwise_negated(a);
  if (b == 0) return 0;
  const T q = a / b, r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
template <Whole T>
inline T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <Whole T, class U>
inline T select(bool m, T yes, U no) {
  return m ? yes : static_cast<T>(no);
}

/// A number of a formula is a float.
template <class T>
inline double as_compared(T x) requires Real<T> {
  return x;
}
template <Whole T>
inline T as_compared(T x) {
  return x;
}
#define LATHE_COMPARE(name, op) \
  template <class T, class U>   \
  requires Whole<T> || Whole<U> \
  inline bool name(T a, U b) { return as_compared(a) op as_compared(b); }
LATHE_COMPARE(lt, <)
LATHE_COMPARE(le, <=)
LATHE_COMPARE(gt, >)
LATHE_COMPARE(ge, >=)
LATHE_COMPARE(eq, ==)
LATHE_COMPARE(ne, !=)
#undef LATHE_COMPARE

/// Truncated, and within the type's range.
template <Whole T>
inline int32_t to_int8(T x) {
  return static_cast<int32_t>(x <= -128 ? -128 : x >= 127 ? 127 : x);
}
template <Whole T>
inline int32_t to_uint8(T x) {
  return static_cast<int32_t>(x <= 0 ? 0 : x >= 255 ? 255 : x);
}
template <Real T>
inline int32_t to_int32(T x) {
  return x <= T(-0x1p31) ? INT32_MIN : x >= T(0x1p31) ? INT32_MAX : static_cast<int32_t>(x);
}
template <Whole T>
inline int32_t to_int32(T x) {
  return static_cast<int32_t>(x <= INT32_MIN ? INT32_MIN : x >= INT32_MAX ? INT32_MAX : x);
}
template <Real T>
inline int64_t to_int64(T x) {
  return x <= T(-0x1p63) ? INT64_MIN : x >= T(0x1p63) ? INT64_MAX : static_cast<int64_t>(x);
}
template <Whole T>
inline int64_t to_int64(T x) {
  return x;
}

/// What is shifted by no number of [0, bits) has lost them all.
template <Whole T>
inline T bitwise_and(T a, int64_t b) {
  return a & static_cast<T>(b);
}
template <Whole T>
inline T bitwise_or(T a, int64_t b) {
  return a | static_cast<T>(b);
}
template <Whole T>
inline T bitwise_xor(T a, int64_t b) {
  return a ^ static_cast<T>(b);
}
template <Whole T>
inline T bitwise_not(T a) {
  return ~a;
}
inline int32_t shift_left(int32_t a, int64_t by) {
  return by < 0 || by > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(a) << by);
}
inline int64_t shift_left(int64_t a, int64_t by) {
  return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
}
inline int32_t shift_right(int32_t a, int64_t by) { return a >> (by < 0 || by > 31 ? 31 : by); }
inline int64_t shift_right(int64_t a, int64_t by) { return a >> (by < 0 || by > 63 ? 63 : by); }

inline int32_t popcount(int32_t a) { return __builtin_popcount(static_cast<uint32_t>(a)); }
inline int64_t popcount(int64_t a) { return __builtin_popcountll(static_cast<uint64_t>(a)); }
/// Modulo 2^32, and the upper half of the product of two unsigned numbers.
inline int32_t wrapping_add(int32_t a, int64_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int32_t wrapping_mul(int32_t a, int64_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
inline int32_t mul_high(int32_t a, int64_t b) {
  return static_cast<int32_t>(uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b) >> 32);
}

/// Below and above all values.
template <class T>
inline T lowest() {
  if constexpr (__is_same(T, int32_t)) return INT32_MIN;
  if constexpr (__is_same(T, int64_t)) return INT64_MIN;
  return static_cast<T>(-__builtin_inf());
}
template <class T>
inline T highest() {
  if constexpr (__is_same(T, int32_t)) return INT32_MAX;
  if constexpr (__is_same(T, int64_t)) return INT64_MAX;
  return static_cast<T>(__builtin_inf());
}

/// Updates a running extremum and its index; the first of equal values wins.
template <bool kLargest, class T>
inline void update_extremum(T& best, int64_t& index, T value, int64_t at) {
  const bool better = (kLargest ? value > best : value < best) || (value == best && at < index);
  best = better ? value : best;
  index = better ? at : index;
}

}  // namespace lathe
