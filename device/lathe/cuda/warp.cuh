#pragma once

#include "lathe/cuda/half.cuh"
#include "lathe/cuda/mbarrier.cuh"

// Warp-level operations besides shuffles: matrix fragments, named barriers, register budgets,
// dependent launches.

namespace lathe {

// Four 8x8 matrices of 16-bit elements; the addresses of their rows come from lanes 0-7, 8-15,
// 16-23 and 24-31. Lane l holds elements (l / 4, 2 * (l % 4)) and its right neighbour of each.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
#if __CUDA_ARCH__ >= 900
__device__ inline void store_matrices(uint32_t row, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
/// The same, each matrix transposed.
__device__ inline void store_matrices_transposed(uint32_t row, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
#endif

// d += a * b on a warp's tensor cores: 16x16 times 16x8 (tf32: 16x8 times 8x8), fp32 accumulators.
#define LATHE_MMA(shape, type)                                                        \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void mma_fp16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  LATHE_MMA("m16n8k16", "f16");
}
__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  LATHE_MMA("m16n8k16", "bf16");
}
__device__ inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  LATHE_MMA("m16n8k8", "tf32");
}
#undef LATHE_MMA

/// An fp32 number rounded to tf32, as bits.
__device__ inline uint32_t to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

/// For kThreads threads, a multiple of 32. Template arguments, because a barrier number in a
/// register reserves all 16.
template <int kBarrier, int kThreads>
__device__ inline void sync_threads() {
  asm volatile("barrier.sync.aligned %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
template <int kBarrier, int kThreads>
__device__ inline void arrive_threads() {
  asm volatile("barrier.arrive.aligned %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

#if __CUDA_ARCH__ >= 900

/// True in one thread of the warp, all of which must call it.
__device__ inline bool elect() {
  uint32_t chosen;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(chosen));
  return chosen != 0;
}

/// Programmatic launches: waits until the previous step's results are visible; lets the next step
/// start.
__device__ inline void wait_for_previous_step() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void let_next_step_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// Registers per thread, a multiple of 8 in 24..240; called by all warps of a warpgroup.
template <int kRegisters>
__device__ inline void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif

}  // namespace lathe
