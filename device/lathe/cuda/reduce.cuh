#pragma once

#include "lathe/cuda/access.cuh"

// Reductions: every thread of the team gets the result.

namespace lathe {

/// Shared memory through which a block's warps exchange partial results. Consecutive reductions
/// must alternate between turns 0 and 1, so that no barrier is needed before the memory is reused;
/// other users must synchronise first.
enum : int { kNoTurn = 2 };
template <int kTurn = kNoTurn>
__device__ inline float* team_shared() {
  __shared__ float parts[32];
  return parts;
}

template <int kTurn, class Join>
__device__ inline float reduce_team(float x, Join join) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  if constexpr (kTeam > 32) {
    float* const parts = team_shared<kTurn>();
    if constexpr (kTurn == kNoTurn) __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    constexpr int kWarps = kTeam / 32;
    x = parts[threadIdx.x % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  }
  return x;
}
template <int kTurn, class Join>
__device__ inline float reduce_lanes(const f32v& a, Join join) {
  float x = a.v[0];
#pragma unroll
  for (int i = 1; i < kVector; ++i) x = join(x, a.v[i]);
  return reduce_team<kTurn>(x, join);
}
template <int kTurn = kNoTurn>
__device__ inline float reduce_add(const f32v& a) {
  return reduce_lanes<kTurn>(a, [](float x, float y) { return x + y; });
}
template <int kTurn = kNoTurn>
__device__ inline float reduce_mul(const f32v& a) {
  return reduce_lanes<kTurn>(a, [](float x, float y) { return x * y; });
}
/// A NaN in any lane gives NaN.
template <int kTurn = kNoTurn>
__device__ inline float reduce_max(const f32v& a) {
  return reduce_lanes<kTurn>(a, [](float x, float y) { return lathe::max(x, y); });
}
template <int kTurn = kNoTurn>
__device__ inline float reduce_min(const f32v& a) {
  return reduce_lanes<kTurn>(a, [](float x, float y) { return lathe::min(x, y); });
}

/// exp(x) for x <= 0 with a relative error of |x| / 2^23, no more than the rounding of x causes; 0
/// below -87.
__device__ inline float exp_below(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}
/// Online softmax: updates the running maximum and the sum of exp(x - maximum), initially kLowest
/// and 0. A thread's values are in its first lane; its other lanes keep their initial values.
__device__ inline void extend_softmax(f32v& top, f32v& sum, const f32v& x) {
  float above = top.v[0];
#pragma unroll
  for (int i = 0; i < kVector; ++i) above = ::fmaxf(above, x.v[i]);
  float total = sum.v[0] * exp_below(top.v[0] - above);
#pragma unroll
  for (int i = 0; i < kVector; ++i) total += exp_below(x.v[i] - above);
  sum.v[0] = total;
  top.v[0] = above;
}
__device__ inline void join_softmax(f32v& top, f32v& sum, const f32v& other_top, const f32v& other_sum) {
  const f32v all = each([&](int i) { return ::fmaxf(top.v[i], other_top.v[i]); });
  sum = sum * exp(top - all) + other_sum * exp(other_top - all);
  top = all;
}

/// Updates a running extremum and its index; the first of equal values wins.
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
