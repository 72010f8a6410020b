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
  constexpr int64_t kFew = 64 / int64_t{sizeof(T)};
  if (count >= kFew) {
    __builtin_memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}
/// Copies rows that are shorter than a vector.
template <class T>
inline void copy_short(T* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}
/// Copies with memcpy, which chooses its method by size and processor.
template <class T>
inline void copy_row_by_library(T* to, const T* from, int64_t count) {
  __builtin_memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
/// Copies with non-temporal stores, for rows that are not read soon.
inline void copy_row_past_cache(float* to, const float* from, int64_t count) {
  const int64_t misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float)) % kLanes;
  int64_t i = misplaced == 0 ? 0 : kLanes - misplaced;
  if (i > count) i = count;
  if (i > 0) store(to, load(from, first_lanes(i)), first_lanes(i));
  for (; i + kLanes <= count; i += kLanes) stream(to + i, load(from + i));
  if (i < count) store(to + i, load(from + i, first_lanes(count - i)), first_lanes(count - i));
}
template <class T>
inline void copy_row_past_cache(T* to, const T* from, int64_t count) {
  copy_row(to, from, count);
}
/// Prefetches a row.
template <class T>
inline void prefetch_row(const T* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t{sizeof(T)}) __builtin_prefetch(from + i);
}
template <class T>
inline constexpr bool kComputedExactly = __is_same(T, double) || __is_same(T, int32_t) ||
                                         __is_same(T, int64_t);

template <class T, class V>
inline void fill_row(T* to, V value, int64_t count) {
  int64_t i = 0;
  if constexpr (kComputedExactly<T>) {
    for (; i < count; ++i) to[i] = static_cast<T>(value);
    return;
  }
  for (; i + kLanes <= count; i += kLanes) store(to + i, f32v(value));
  if (i < count) store(to + i, f32v(value), first_lanes(count - i));
}

/// Which j of [0, count) lead to a place at + j * stride in [0, extent): [first, end).
struct Hit {
  int64_t first, end;
};
inline Hit hits(int64_t count, int64_t at, int64_t stride, int64_t extent) {
  const int64_t first = min(at >= 0 ? int64_t{0} : cdiv(-at, stride), count);
  return {first, max(first, min(extent > at ? cdiv(extent - at, stride) : int64_t{0}, count))};
}
/// to[j] = from[at + j * stride] where that lies in [0, extent), else 0.
template <class T>
inline void copy_every(T* to, const T* from, int64_t count, int64_t at, int64_t stride, int64_t extent) {
  const Hit hit = hits(count, at, stride, extent);
  fill_row(to, 0.0f, hit.first);
  if (stride == 1)
    copy_row(to + hit.first, from + at + hit.first, hit.end - hit.first);
  else
    for (int64_t j = hit.first; j < hit.end; ++j) to[j] = from[at + j * stride];
  fill_row(to + hit.end, 0.0f, count - hit.end);
}
/// to[at + j * stride] += from[j] where that lies in [0, extent).
inline void add_every(float* to, const float* from, int64_t count, int64_t at, int64_t stride,
                      int64_t extent) {
  const Hit hit = hits(count, at, stride, extent);
  if (stride == 1)
    for (int64_t j = hit.first; j < hit.end; ++j) to[at + j] += from[j];
  else
    for (int64_t j = hit.first; j < hit.end; ++j) to[at + j * stride] += from[j];
}

/// to[j] = from[at[j]]; NaN where that lies outside [0, extent).
inline void gather_elements(float* to, const float* from, const int32_t* at, int64_t count, int64_t extent) {
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) store(to + j, gather(from, at + j, all_lanes(), extent));
  for (; j < count; ++j) to[j] = at[j] >= 0 && at[j] < extent ? from[at[j]] : __builtin_nanf("");
}
template <class T, class Index>
inline void gather_elements(T* to, const T* from, const Index* at, int64_t count, int64_t extent) {
  for (int64_t j = 0; j < count; ++j)
    to[j] = at[j] >= 0 && at[j] < extent ? from[at[j]] : T(__builtin_nanf(""));
}

/// to[j] = from[at[j] * stride + j * step]; NaN where at[j] lies outside [0, extent).
template <class T, class Index>
inline void take_elements(T* to, const T* from, const Index* at, int64_t count, int64_t extent,
                          int64_t stride, int64_t step) {
  for (int64_t j = 0; j < count; ++j)
    to[j] = at[j] >= 0 && at[j] < extent ? from[at[j] * stride + j * step] : T(__builtin_nanf(""));
}

/// The lanes of [first, end) at positions `at`, `at` + stride, ...: those whose position lies in
/// [0, extent).
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

/// Of y = a y + b along the lanes: afterwards y = a y + b of the number before the first lane.
inline void prefix_linear(f32v& a, f32v& b) {
  const auto join = [&](f32v other_a, f32v other_b, int64_t lanes) {
    b = fma(a, other_b, b);
    a = a * select(first_lanes(lanes), f32v(1.0f), other_a);
  };
  join(shift_up<1>(a), shift_up<1>(b), 1);
  join(shift_up<2>(a), shift_up<2>(b), 2);
  join(shift_up<4>(a), shift_up<4>(b), 4);
  if constexpr (kLanes > 8) join(shift_up<8 % kLanes>(a), shift_up<8 % kLanes>(b), 8);
}

/// Inclusive running maximum of the lanes.
inline f32v prefix_max(f32v a) {
  a = max(a, select(first_lanes(1), a, shift_up<1>(a)));
  a = max(a, select(first_lanes(2), a, shift_up<2>(a)));
  a = max(a, select(first_lanes(4), a, shift_up<4>(a)));
  if constexpr (kLanes > 8) a = max(a, select(first_lanes(8), a, shift_up<8 % kLanes>(a)));
  return a;
}
inline f32v prefix_min(f32v a) { return -prefix_max(-a); }

}  // namespace lathe
