#pragma once

#include "lathe/cuda/math.cuh"

// Cache hints: pointer types that say how their memory will be used, and accesses that pass this to
// the caches.

namespace lathe {

struct kept_in_cache {};
/// Will not be read again soon.
struct past_cache {};
/// Evicted first from the L2, so that results are written back early.
struct last_in_cache {};

template <class Wide>
__device__ inline Wide fetch(const Wide* p, kept_in_cache) { return *p; }
template <class Wide>
__device__ inline Wide fetch(const Wide* p, past_cache) { return __ldcs(p); }
template <class Wide>
__device__ inline void put(Wide* p, const Wide& x, kept_in_cache) { *p = x; }
template <class Wide>
__device__ inline void put(Wide* p, const Wide& x, past_cache) { __stcs(p, x); }

__device__ inline uint64_t last_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Volatile, so that they are not moved before the wait for the previous step.
__device__ inline float fetch(const float* p, last_in_cache) {
  float x;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(p), "l"(last_policy()));
  return x;
}
__device__ inline unsigned short fetch(const unsigned short* p, last_in_cache) {
  unsigned short x;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(x) : "l"(p), "l"(last_policy()));
  return x;
}
__device__ inline unsigned char fetch(const unsigned char* p, last_in_cache) {
  unsigned short x;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.u8 %0, [%1], %2;" : "=h"(x) : "l"(p), "l"(last_policy()));
  return static_cast<unsigned char>(x);
}
__device__ inline float2 fetch(const float2* p, last_in_cache) {
  float2 x;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.v2.f32 {%0, %1}, [%2], %3;"
               : "=f"(x.x), "=f"(x.y)
               : "l"(p), "l"(last_policy()));
  return x;
}
__device__ inline float4 fetch(const float4* p, last_in_cache) {
  float4 x;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(p), "l"(last_policy()));
  return x;
}

}  // namespace lathe
