#pragma once

#include "lathe/cuda/reduce.cuh"

// Combines the partial results of a block's warps, or of several blocks, for one work item.

namespace lathe {

__device__ inline f32v* warps_shared() {
  __shared__ f32v parts[32][32];
  return parts[0];
}
/// Combines the values of the block's kWarps warps lane by lane, in warp order. For teams of one
/// warp.
template <int kWarps, class Join>
__device__ inline f32v join_warps(const f32v& mine, Join join) {
  f32v* const parts = warps_shared() + team_thread();
  __syncthreads();
  parts[threadIdx.x & ~31u] = mine;
  __syncthreads();
  f32v all = parts[0];
#pragma unroll 8
  for (int w = 1; w < kWarps; ++w) all = join(all, parts[32 * w]);
  return all;
}

/// Access mode that bypasses the L1, for data that other blocks wrote during this launch.
struct fresh {};
template <class Wide>
__device__ inline Wide fetch(const Wide* p, fresh) { return __ldcg(p); }
template <class Mask>
__device__ inline f32v load_fresh(const float* p, const Mask& m) { return load_as(p, m, fresh()); }

/// Whether the calling team (or block) is the last of `shares` to arrive. Each must have written
/// its results first; the last one may then read all of them. `counter` is zero before and after.
template <bool kBlock>
__device__ inline bool is_last_share(void* counter, int64_t shares) {
  constexpr bool kWarp = kTeam == 32 && !kBlock;
  __threadfence();
  if constexpr (kWarp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  const auto last = static_cast<unsigned>(shares - 1);
  bool mine = false;
  if ((kBlock ? static_cast<int>(threadIdx.x) : team_thread()) == 0)
    mine = atomicInc(static_cast<unsigned*>(counter), last) == last;
  if constexpr (kWarp) {
    mine = __any_sync(0xffffffffu, mine);
  } else {
    mine = __syncthreads_or(mine);
  }
  __threadfence();
  return mine;
}

/// Mean and squared deviations from it of the `count` values that each lane has seen.
struct moments {
  f32v mean = 0.0f, squares = 0.0f;
  float count = 0;
};
/// Adds x if `in`, which must be the same in all lanes.
__device__ inline void extend(moments& m, const f32v& x, bool in) {
  if (in) m.count += 1.0f;
  const float share = in ? __fdividef(1.0f, m.count) : 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float apart = in ? x.v[i] - m.mean.v[i] : 0.0f;
    m.mean.v[i] = ::fmaf(apart, share, m.mean.v[i]);
    m.squares.v[i] = in ? ::fmaf(apart, x.v[i] - m.mean.v[i], m.squares.v[i]) : m.squares.v[i];
  }
}
/// Branch-free, so that the loads of several shares overlap.
__device__ inline moments joined(const moments& a, const moments& b) {
  moments all;
  all.count = a.count + b.count;
  const float share = b.count > 0 ? __fdividef(b.count, all.count) : 0.0f, weight = a.count * share;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float apart = b.mean.v[i] - a.mean.v[i];
    const float between = weight > 0 ? apart * apart * weight : 0.0f;
    all.mean.v[i] = ::fmaf(apart, share, a.mean.v[i]);
    all.squares.v[i] = a.squares.v[i] + b.squares.v[i] + between;
  }
  return all;
}
/// join_warps() for moments.
template <int kWarps>
__device__ inline moments join_warps(const moments& mine) {
  __shared__ float counts[32];
  f32v* const parts = warps_shared() + team_thread();
  const f32v squares = join_warps<kWarps>(mine.squares, [](const f32v& a, const f32v& b) { return a + b; });
  __syncthreads();
  parts[threadIdx.x & ~31u] = mine.mean;
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = mine.count;
  __syncthreads();
  moments all;
#pragma unroll 8
  for (int w = 0; w < kWarps; ++w) all.count += counts[w];
  const float share = 1.0f / all.count;
#pragma unroll 8
  for (int w = 0; w < kWarps; ++w) all.mean = all.mean + parts[32 * w] * (counts[w] * share);
#pragma unroll 8
  for (int w = 0; w < kWarps; ++w) {
    const f32v apart = parts[32 * w] - all.mean;
    all.squares = all.squares + apart * apart * counts[w];
  }
  all.squares = all.squares + squares;
  return all;
}

}  // namespace lathe
