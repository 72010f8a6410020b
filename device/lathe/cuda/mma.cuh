#pragma once

#include "lathe/cuda/math.cuh"

// Building blocks of tensor-core products: asynchronous copies to shared memory, fragments,
// clusters.

namespace lathe {

/// Copies 16 bytes, or zeros if !inside; `from` must be valid and aligned to 16 bytes in either
/// case.
__device__ inline void copy_ahead_16(float* to, const float* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
/// Copies the first `bytes` of 16, and zeros for the others.
__device__ inline void copy_part_16(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
/// The same for 4 or 8, which both addresses must be multiples of.
template <int kWidth>
__device__ inline void copy_part(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kWidth),
               "r"(bytes)
               : "memory");
}
__device__ inline void copy_ahead_4(float* to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 4 : 0)
               : "memory");
}
/// Commits a group of copies; groups complete in order.
__device__ inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kPending groups of this thread are in flight.
template <int kPending>
__device__ void await_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8 x 8 matrices of 16 bits, or 8 x 4 of 32: matrix i's rows begin where lanes 8 i to 8 i + 7
/// point; a lane gets element (lane / 4, lane % 4) of each.
__device__ inline void load_matrices(float (&to)[4], const float* row) {
  uint32_t r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = __uint_as_float(r[i]);
}

/// c += a b for a 16 x 8 and b 8 x 8 in TF32 (10 bits of mantissa, the rest is ignored).
__device__ inline void multiply_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// x = big + small / LATHE_SMALL_SCALE, where big is a TF32 number and small holds the remaining
/// bits, except possibly the last. The scale keeps the small parts of denormals within TF32's
/// range. If x is not finite or close to the largest number, small is not finite.
#define LATHE_SMALL_SCALE 8192.0f
#define LATHE_LARGEST 3.402823466e38f
__device__ inline void split_tf32(float x, uint32_t& big, uint32_t& small) {
  big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint((x - __uint_as_float(big)) * LATHE_SMALL_SCALE);
}

/// A barrier of all threads of the cluster that orders accesses to shared memory. Before sm_90 each
/// block is a cluster of its own.
__device__ inline void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}
/// Reads from the shared memory of the cluster's block `rank` at the address that `at` has in this
/// block.
__device__ inline float load_of_block(const float* at, [[maybe_unused]] int rank) {
#if __CUDA_ARCH__ >= 900
  uint32_t there;
  float value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  return value;
#else
  return *at;
#endif
}

}  // namespace lathe
