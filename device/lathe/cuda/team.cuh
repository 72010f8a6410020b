#pragma once

#include "lathe/cuda/share.cuh"

// The headers of team kernels: vectors (lanes, vector), masks (reach), access, reductions; this
// file adds prefixes and rows.

namespace lathe {

// Prefixes.

/// Exclusive prefix over the threads of the team: x combined over all earlier threads; `start` in
/// the first.
template <class Join>
__device__ inline float before_me(float x, float start, Join join) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum = join(other, sum);
  }
  float before = __shfl_up_sync(0xffffffffu, sum, 1);
  if (lane == 0) before = start;
  if constexpr (kTeam > 32) {
    float* const parts = team_shared();
    __syncthreads();
    if (lane == 31) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float warps = start;
    for (int w = 0; w < static_cast<int>(threadIdx.x) / 32; ++w) warps = join(warps, parts[w]);
    before = join(warps, before);
  }
  return before;
}
template <class Join>
__device__ inline f32v prefix(f32v a, float start, Join join) {
#pragma unroll
  for (int i = 1; i < kVector; ++i) a.v[i] = join(a.v[i - 1], a.v[i]);
  const float before = before_me(a.v[kVector - 1], start, join);
  return each([&](int i) { return join(before, a.v[i]); });
}
__device__ inline f32v prefix_sum(const f32v& a) {
  return prefix(a, 0.0f, [](float x, float y) { return x + y; });
}
__device__ inline f32v prefix_product(const f32v& a) {
  return prefix(a, 1.0f, [](float x, float y) { return x * y; });
}
__device__ inline f32v prefix_max(const f32v& a) {
  return prefix(a, -__builtin_inff(), [](float x, float y) { return max(x, y); });
}
__device__ inline f32v prefix_min(const f32v& a) {
  return prefix(a, __builtin_inff(), [](float x, float y) { return min(x, y); });
}
__device__ inline f32v broadcast_last(const f32v& a) {
  if constexpr (kTeam == 32) {
    return f32v(__shfl_sync(0xffffffffu, a.v[kVector - 1], 31));
  } else {
    float* const parts = team_shared();
    __syncthreads();
    if (threadIdx.x == kTeam - 1) parts[0] = a.v[kVector - 1];
    __syncthreads();
    return f32v(parts[0]);
  }
}

// Rows.

template <class T>
__device__ inline void copy_row(T* to, const T* from, int64_t count) {
  for (int64_t i = team_thread(); i < count; i += kTeam) to[i] = from[i];
}
__device__ inline void copy_row(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store(to + i, load(from + i, first_lanes(count - i)), first_lanes(count - i));
}
/// Element `at` of a row; 0 if out of range.
template <class T>
__device__ inline float pick(const T* row, float at, int64_t count) {
  const auto index = static_cast<int64_t>(at);
  return index >= 0 && index < count ? row[index] : 0.0f;
}
/// to[j] = from[at[j] * stride + j * step]; NaN where at[j] lies outside [0, extent).
template <class T, class Index>
__device__ inline void take_elements(T* to, const T* from, const Index* at, int64_t count, int64_t extent,
                                     int64_t stride, int64_t step) {
  for (int64_t j = team_thread(); j < count; j += kTeam)
    to[j] = at[j] >= 0 && at[j] < extent ? from[at[j] * stride + j * step] : T(__builtin_nanf(""));
}
/// to[j] = from[at + j * stride] where that lies in [0, extent), else 0.
template <class T>
__device__ inline void copy_every(T* to, const T* from, int64_t count, int64_t at, int64_t stride, int64_t extent) {
  for (int64_t j = team_thread(); j < count; j += kTeam) {
    const int64_t place = at + j * stride;
    to[j] = place >= 0 && place < extent ? from[place] : T(0.0f);
  }
}
template <class T>
__device__ inline void fill_row(T* to, float value, int64_t count) {
  for (int64_t i = team_thread(); i < count; i += kTeam) to[i] = value;
}

}  // namespace lathe
