#pragma once

#include "lathe/cuda/half.cuh"
#include "lathe/cuda/mbarrier.cuh"

// Products of a warpgroup (128 threads) on Hopper's tensor cores, from shared memory: 64 x 16 times
// 16 x N in fp16 or bf16, 64 x 8 times 8 x N in tf32, accumulated in fp32, or fp16 in fp16.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace lathe {

/// A tile in shared memory with 128-byte swizzle, as a TMA map with swizzle = 128 leaves it: rows
/// of 128 bytes, aligned to 1024 bytes. `chunk_bytes` is the distance of tiles side by side where
/// rows run along M or N, and of no consequence where they run along K. The next step along K lies
/// 32 bytes further where rows run along K, else 16 rows (2048 bytes): see advance().
__device__ inline uint64_t swizzled_tile(uint32_t address, uint32_t chunk_bytes = 16) {
  const uint64_t eight_rows = 1024 >> 4, swizzle_128 = 1;
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(chunk_bytes >> 4) << 16 | eight_rows << 32 |
         swizzle_128 << 62;
}
__device__ inline uint64_t swizzled_tile(const void* tile, uint32_t chunk_bytes = 16) {
  return swizzled_tile(shared_address(tile), chunk_bytes);
}
/// Addresses in shared memory never carry into the upper half.
__device__ inline uint64_t advance(uint64_t tile, uint32_t bytes) {
  return (tile >> 32) << 32 | (static_cast<uint32_t>(tile) + (bytes >> 4));
}

/// Required before the first product and after other code has accessed the accumulators.
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Commits the products issued since the last commit as a group.
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kPending groups are in flight. The accumulators, passed here, may be read
/// after kPending = 0.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
template <int kPending, int kCount>
__device__ inline void wgmma_wait(float (&d)[kCount]) {
  wgmma_wait<kPending>();
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kPending, int kCount>
__device__ inline void wgmma_wait(uint32_t (&d)[kCount]) {
  wgmma_wait<kPending>();
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

/// Operands: fp16, bf16, tf32 (fp32 whose low bits are ignored).
struct Fp16 {};
struct Bf16 {};
struct Tf32 {};

/// The direction of the operand's rows in shared memory. tf32 supports only rows along K.
enum Major { kAlongK = 0, kAlongMN = 1 };

/// d = (keep ? d : 0) + a * b. In thread t of the warpgroup, d[4j + 2r + c] is element (16 (t / 32)
/// + t % 32 / 4 + 8r, 8j + 2 (t % 4) + c).
template <class Type, int kN, Major kA = kAlongK, Major kB = kAlongK>
struct Wgmma;

/// The same of fp16 operands with sums in fp16: element d[4j + 2r + c] there is half c of d[2j + r]
/// here. For N in 32, 64, 96, 128, 160, 192 and 256.
template <int kN, Major kA = kAlongK, Major kB = kAlongK>
struct WgmmaFp16Sums;

}  // namespace lathe

#include "lathe/cuda/wgmma_shapes.cuh"

#endif
