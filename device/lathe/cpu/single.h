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

template <bool kLargest>
inline void update_extremum(float& best, float& index, float value, float at) {
  const bool better = (kLargest ? value > best : value < best) || (value == best && at < index);
  best = better ? value : best;
  index = better ? at : index;
}
template <bool kLargest>
inline float extremum_index(float best, float index) {
  return best == best ? index : __builtin_inff();
}
inline float reduce_add(float a) { return a; }
inline float reduce_mul(float a) { return a; }
inline float reduce_max(float a) { return a; }
inline float reduce_min(float a) { return a; }

}  // namespace lathe
