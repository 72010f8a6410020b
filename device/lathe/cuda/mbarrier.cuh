#pragma once

#include "lathe/cuda/math.cuh"

// Barriers in shared memory that count arrivals and, from sm_90 on, the bytes of asynchronous
// copies.

namespace lathe {

/// A barrier in shared memory. A phase completes when all expected arrivals and bytes have arrived;
/// phases have parities 0, 1, 0, ... A wait for parity 1 on a new barrier returns at once.
struct alignas(8) Barrier {
  uint64_t state;
};

/// Called by one thread, followed by fence_barriers() and a barrier of the block (or cluster)
/// before the first use.
__device__ inline void init(Barrier& barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals)
               : "memory");
}

// Barriers are named by reference, or by their address in shared memory, which loops compute once.

__device__ inline void arrive(uint32_t address) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(address) : "memory");
}
__device__ inline void arrive(Barrier& barrier) { arrive(shared_address(&barrier)); }

#if __CUDA_ARCH__ >= 900

/// Makes initialised barriers visible to the cluster and to asynchronous copies.
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Arrives, and expects `bytes` more in this phase.
__device__ inline void arrive_expecting(Barrier& barrier, uint32_t bytes) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;}" ::"r"(
                   shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

/// Expects `bytes` more in this phase, without arriving.
__device__ inline void expect(Barrier& barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

/// Arrives at the barrier at the same address in a block of the cluster, possibly this one. Signals
/// that this thread, or products that it waited for, have finished reading; does not make its
/// writes visible.
__device__ inline void arrive_remote(Barrier& barrier, uint32_t rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

/// Like arrive_remote(), but with release semantics for this thread's writes; slower. Pairs with
/// wait_cluster().
__device__ inline void release_remote(Barrier& barrier, uint32_t rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

/// Whether the phase of this parity has completed; may wait for a limited time.
__device__ inline bool try_wait(uint32_t address, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(address), "r"(parity)
               : "memory");
  return done != 0;
}
__device__ inline bool try_wait(Barrier& barrier, uint32_t parity) {
  return try_wait(shared_address(&barrier), parity);
}
/// The same, without waiting.
__device__ inline bool test_wait(uint32_t address, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(address), "r"(parity)
               : "memory");
  return done != 0;
}

/// Like wait(), with acquire semantics for what other blocks wrote before release_remote().
__device__ inline void wait_cluster(Barrier& barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0)
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, "
        "1, 0, p;}"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
}

#else

__device__ inline bool try_wait(uint32_t address, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(address), "r"(parity)
               : "memory");
  return done != 0;
}
__device__ inline bool try_wait(Barrier& barrier, uint32_t parity) {
  return try_wait(shared_address(&barrier), parity);
}

#endif

__device__ inline void wait(uint32_t address, uint32_t parity) {
  while (!try_wait(address, parity)) {
  }
}
__device__ inline void wait(Barrier& barrier, uint32_t parity) { wait(shared_address(&barrier), parity); }

}  // namespace lathe
