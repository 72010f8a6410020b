#pragma once

#include "lathe/cuda/access.cuh"

// Reductions: every thread of the team gets the result.

namespace lathe {

/// What a block's warps exchange.
__device__ inline float* team_shared() {
  __shared__ float parts[32];
  return parts;
}

template <class Join>
__device__ inline float reduce_team(float x, Join join) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  if constexpr (kTeam > 32) {
    float* const parts = team_shared();
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    constexpr int kWarps = kTeam / 32;
    x = parts[threadIdx.x % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  }
  return x;
}
template <class Join>
__device__ inline float reduce_lanes(const f32v& a, Join join) {
  float x = a.v[0];
#pragma unroll
  for (int i = 1; i < kVector; ++i) x = join(x, a.v[i]);
  return reduce_team(x, join);
}
__device__ inline float reduce_add(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return x + y; });
}
__device__ inline float reduce_mul(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return x * y; });
}
/// A NaN in any lane gives NaN.
__device__ inline float reduce_max(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return lathe::max(x, y); });
}
__device__ inline float reduce_min(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return lathe::min(x, y); });
}

/// Extends the largest values so far and the sums of exp(x - largest): kLowest and 0 at first.
__device__ inline void extend_softmax(f32v& top, f32v& sum, const f32v& x) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float above = x.v[i] - top.v[i], e = lathe::exp(-::fabsf(above));
    const float one = 1.0f + (x.v[i] - x.v[i]);  // NaN for infinity, as in the definition
    sum.v[i] = above > 0 ? sum.v[i] * e + one : sum.v[i] + e;
    top.v[i] = above > 0 ? x.v[i] : top.v[i];
  }
}
__device__ inline void join_softmax(f32v& top, f32v& sum, const f32v& other_top, const f32v& other_sum) {
  const f32v all = each([&](int i) { return ::fmaxf(top.v[i], other_top.v[i]); });
  sum = sum * exp(top - all) + other_sum * exp(other_top - all);
  top = all;
}

/// What the block's warps hold, joined lane by lane in their order. For teams of one warp.
template <class Join>
__device__ inline f32v join_warps(const f32v& mine, Join join) {
  __shared__ float parts[32][kTeam * kVector];
  const int warps = static_cast<int>(blockDim.x) / 32, first = team_thread() * kVector;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kVector; ++i) parts[threadIdx.x / 32][first + i] = mine.v[i];
  __syncthreads();
  f32v all = each([&](int i) { return parts[0][first + i]; });
  for (int w = 1; w < warps; ++w) all = join(all, each([&](int i) { return parts[w][first + i]; }));
  return all;
}

/// Extends a running extremum with its index; the first of equals stays.
template <bool kLargest>
__device__ inline void update_extremum(f32v& best, f32v& index, const f32v& value, const f32v& at) {
  const maskv tie = eq(value, best) & lt(at, index);
  const maskv better = (kLargest ? gt(value, best) : lt(value, best)) | tie;
  best = select(better, value, best);
  index = select(better, at, index);
}
template <bool kLargest>
__device__ inline float extremum_index(const f32v& best, const f32v& index) {
  const float value = kLargest ? reduce_max(best) : reduce_min(best);
  return reduce_min(select(eq(best, f32v(value)), index, f32v(kInfinity)));
}

}  // namespace lathe
