#pragma once

#include "lathe/cpu/vector.h"

namespace lathe {

inline void copy_row(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store(to + i, load(from + i, first_lanes(count - i)), first_lanes(count - i));
}
template <class T>
inline void copy_row(T* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}
inline void fill_row(float* to, float value, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, f32v(value));
  if (i < count) store(to + i, f32v(value), first_lanes(count - i));
}

/// The lanes of [first, end) at positions `at`, `at` + stride, ...: those whose position lies in [0, extent).
inline maskv inside(int64_t at, int64_t stride, int64_t extent) {
  const int64_t first = at >= 0 ? 0 : cdiv(-at, stride);
  const int64_t end = extent > at ? cdiv(extent - at, stride) : 0;
  return first_lanes(end) & ~first_lanes(first);
}

/// Inclusive running product of the lanes.
inline f32v prefix_product(f32v a) {
  a = a * select(first_lanes(1), f32v(1.0f), shift_up<1>(a));
  a = a * select(first_lanes(2), f32v(1.0f), shift_up<2>(a));
  a = a * select(first_lanes(4), f32v(1.0f), shift_up<4>(a));
  if constexpr (kLanes > 8) a = a * select(first_lanes(8), f32v(1.0f), shift_up<8 % kLanes>(a));
  return a;
}

}  // namespace lathe
