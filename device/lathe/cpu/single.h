#pragma once

#include "lathe/cpu/reduce.h"

namespace lathe {

/// One lane, for rows that are shorter than vectors: loads give floats, and what kernels do with
/// vectors and masks they do with these.
struct single {};
template <class T>
inline float load(const T* p, single) {
  return static_cast<float>(*p);
}
template <class T>
inline void store(T* p, float a, single) {
  *p = static_cast<T>(a);
}
inline float keep(single, float a, float) { return a; }
/// b where either is NaN.
inline float fast_max(float a, float b) { return a > b ? a : b; }
inline float fast_min(float a, float b) { return a < b ? a : b; }

/// By bits: a branch on random values is guessed wrong several times a row.
inline float choose(bool which, float yes, float no) {
  const uint32_t mask = -static_cast<uint32_t>(which);
  return __builtin_bit_cast(
      float, (__builtin_bit_cast(uint32_t, yes) & mask) | (__builtin_bit_cast(uint32_t, no) & ~mask));
}
/// Indices come in order, so that the first of equal values stays.
template <bool kLargest>
inline void update_extremum(float& best, float& index, float value, float at) {
  const bool better = kLargest ? value > best : value < best;
  best = kLargest ? fast_max(value, best) : fast_min(value, best);
  index = choose(better, at, index);
}
/// Where no value is beyond infinity the first one is the extremum.
template <bool kLargest>
inline float extremum_index(float, float index) {
  return index < __builtin_inff() ? index : 0;
}
inline float reduce_add(float a) { return a; }
inline float reduce_mul(float a) { return a; }
inline float reduce_max(float a) { return a; }
inline float reduce_min(float a) { return a; }

}  // namespace lathe
