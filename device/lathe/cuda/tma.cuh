#pragma once

#include "lathe/cuda/mbarrier.cuh"

// The tensor memory accelerator (sm_90 and later): one thread copies a box of a tensor. Coordinates
// are in elements, innermost first; loads fill elements outside the tensor, stores skip them.

namespace lathe {

/// A `tma` map of the plan. Kernels take it as `const __grid_constant__ lathe::TensorMap name`.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace lathe

#if __CUDA_ARCH__ >= 900

namespace lathe {

__device__ inline void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads into shared memory, in multiples of 128 bytes (1024 with 128-byte swizzle); the bytes
// arrive at `barrier`.
#define LATHE_TMA_LOAD "cp.async.bulk.tensor."
#define LATHE_TMA_TO ".shared::cluster.global.mbarrier::complete_tx::bytes"
__device__ inline void tma_load(void* to, const TensorMap& map, int x, int y, Barrier& barrier) {
  asm volatile(LATHE_TMA_LOAD "2d" LATHE_TMA_TO " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
               : "memory");
}
__device__ inline void tma_load(void* to, const TensorMap& map, int x, int y, int z, Barrier& barrier) {
  asm volatile(LATHE_TMA_LOAD "3d" LATHE_TMA_TO " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier))
               : "memory");
}

/// Multicasts to the same address in every block of the cluster whose bit is set in `blocks`; each
/// block's own barrier counts the bytes.
__device__ inline void tma_multicast(void* to, const TensorMap& map, int x, int y, Barrier& barrier,
                                     uint16_t blocks) {
  asm volatile(LATHE_TMA_LOAD "2d" LATHE_TMA_TO
                              ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)), "h"(blocks)
               : "memory");
}
__device__ inline void tma_multicast(void* to, const TensorMap& map, int x, int y, int z, Barrier& barrier,
                                     uint16_t blocks) {
  asm volatile(LATHE_TMA_LOAD
               "3d" LATHE_TMA_TO
               ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
               "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&barrier)), "h"(blocks)
               : "memory");
}
#undef LATHE_TMA_LOAD
#undef LATHE_TMA_TO

/// Orders ordinary writes to shared memory before a copy that reads them; called by the writing
/// threads.
__device__ inline void fence_async_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void tma_store(const TensorMap& map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(x), "r"(y), "r"(shared_address(from))
               : "memory");
}
__device__ inline void tma_store(const TensorMap& map, int x, int y, int z, const void* from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z), "r"(shared_address(from))
               : "memory");
}
/// Adds to the tensor's contents in the map's dtype, in no fixed order.
__device__ inline void tma_add(const TensorMap& map, int x, int y, const void* from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(shared_address(from))
      : "memory");
}

// Contiguous copies without a map; `bytes` and both addresses must be multiples of 16.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}
__device__ inline void bulk_store(void* to, const void* from, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}
__device__ inline void bulk_add(float* to, const float* from, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

/// Commits this thread's stores since the last commit as a group.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most kPending groups still read shared memory.
template <int kPending>
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Waits until at most kPending groups are not completely written.
template <int kPending>
__device__ inline void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace lathe

#endif
