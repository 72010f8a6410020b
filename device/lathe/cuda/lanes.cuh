#pragma once

#include "lathe/cuda/math.cuh"

// A team of threads as one wide vector unit: an f32v holds this thread's kVector neighbouring lanes
// of kLanes = kTeam * kVector. Kernels written against this interface are those of lathe/cpu.h; all
// threads of a team must make the same calls. A team is a warp or a whole block. Defined before
// inclusion: LATHE_TEAM (a power of two from 32) and LATHE_VECTOR (1, 2 or 4).

#ifndef LATHE_TEAM
#define LATHE_TEAM 256
#endif
#ifndef LATHE_VECTOR
#define LATHE_VECTOR 4
#endif

namespace lathe {

// Enumerators and a macro, because NVRTC allocates memory for namespace-scope constants.
enum : int { kTeam = LATHE_TEAM, kVector = LATHE_VECTOR };
enum : int64_t { kLanes = int64_t{kTeam} * kVector };
#define kInfinity __builtin_inff()
#define kLowest (-3.402823466e38f)
static_assert(kTeam >= 32 && kTeam <= 1024 && (kTeam & (kTeam - 1)) == 0);

__device__ inline int team_thread() { return static_cast<int>(threadIdx.x) % kTeam; }
/// The work item of this thread's team.
__device__ inline int64_t first_item() {
  return int64_t{blockIdx.x} * (blockDim.x / kTeam) + threadIdx.x / kTeam;
}

/// Programmatic dependent launch: lets the next step's blocks start and waits until the previous
/// step's results are visible. No effect in plans without `programmatic` steps.
__device__ inline void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// A mask of leading lanes whose number is a multiple of kVector: each thread's are all in or all
/// out.
struct groupv {
  bool in;
};
/// A mask of leading lanes: `left` counts from this thread's first one, and may be negative.
struct headv {
  int left;
};
/// All lanes, for tensors with aligned vectors.
struct everyv {};
struct maskv {
  bool m[kVector];
  maskv() = default;
  __device__ maskv(everyv) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) m[i] = true;
  }
  __device__ maskv(groupv g) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) m[i] = g.in;
  }
  __device__ maskv(headv h) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) m[i] = i < h.left;
  }
};
struct f32v {
  float v[kVector];
  f32v() = default;
  __device__ f32v(float x) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) v[i] = x;
  }
};
/// A mask known at compile time to be all true.
struct whole {};

template <class Make>
__device__ inline f32v each(Make make) {
  f32v r;
#pragma unroll
  for (int i = 0; i < kVector; ++i) r.v[i] = make(i);
  return r;
}
template <class Make>
__device__ inline maskv each_flag(Make make) {
  maskv r;
#pragma unroll
  for (int i = 0; i < kVector; ++i) r.m[i] = make(i);
  return r;
}

}  // namespace lathe
