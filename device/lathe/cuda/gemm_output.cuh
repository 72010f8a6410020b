#pragma once

#include "lathe/cuda/cluster.cuh"
#include "lathe/cuda/half.cuh"
#include "lathe/cuda/warp.cuh"

// What the fp16 and bf16 matrix products have in common: the call, the result, and partial sums.

namespace lathe {

/// C = alpha A B + beta C, with C of m x n and rows in memory; the distances between rows (of C, and
/// of the operands as they are stored) are in elements. beta = 0 does not read C.
struct GemmCall {
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc;
  int m, n, k;
  float alpha, beta;
};

__device__ inline uint32_t pack(half, float x, float y) { return pack_fp16(x, y); }
__device__ inline uint32_t pack(bfloat16, float x, float y) { return pack_bf16(x, y); }
__device__ inline void mma(half, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma_fp16(d, a, b);
}
__device__ inline void mma(bfloat16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma_bf16(d, a, b);
}

/// The edges of C. Each element is put once, and rounded once.
template <class Type>
struct GemmOutput {
  Type* c;
  int64_t ldc;
  int m, n;
  float alpha, beta;

  __device__ explicit GemmOutput(const GemmCall& call)
      : c(static_cast<Type*>(call.c)), ldc(call.ldc), m(call.m), n(call.n), alpha(call.alpha), beta(call.beta) {}

  __device__ Type* at(int row, int column) const { return c + row * ldc + column; }
  __device__ bool is_plain() const { return alpha == 1 && beta == 0; }
  /// The value of an element inside C.
  __device__ float value(int row, int column, float sum) const {
    return beta == 0 ? alpha * sum : ::fmaf(beta, static_cast<float>(*at(row, column)), alpha * sum);
  }

  /// kCount (2 or 4) neighbours, the first at a multiple of kCount.
  template <int kCount>
  __device__ void put(int row, int column, const float (&sums)[kCount]) const {
    if (row >= m) return;
    Type* const to = at(row, column);
    const bool wide = column + kCount <= n && reinterpret_cast<uint64_t>(to) % (2 * kCount) == 0;
    if (wide && is_plain()) return put_wide(to, sums);
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = column + i < n ? value(row, column + i, sums[i]) : 0;
    if (wide) return put_wide(to, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (column + i < n) to[i] = values[i];
  }

  __device__ static void put_wide(Type* to, const float (&x)[2]) {
    *reinterpret_cast<uint32_t*>(to) = pack(Type(), x[0], x[1]);
  }
  __device__ static void put_wide(Type* to, const float (&x)[4]) {
    *reinterpret_cast<uint2*>(to) = make_uint2(pack(Type(), x[0], x[1]), pack(Type(), x[2], x[3]));
  }
};

/// A tile's partial sums, of kSlices groups of warps in each of the kSplit blocks of a cluster. Every
/// block owns a band of the tile's rows. All send their sums to the owners' shared memory, which
/// therefore no one may use for anything else; the owners add them in the order of blocks and slices.
template <int kRows, int kColumns, int kSlices, int kSplit, int kThreads>
struct GemmPartials {
  enum {
    kOwnRows = kRows / kSplit,
    kPitch = kColumns + 8,
    kParts = kSlices * kSplit,
    kFloats = kParts > 1 ? kParts * kOwnRows * kPitch : 0
  };
  static_assert(kRows % kSplit == 0 && kColumns % 4 == 0);

  float* memory;
  int rank;  ///< of this block in its cluster

  /// Called first of all, so that by the time of the first put() every block has started.
  __device__ static void begin() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kSplit > 1) cluster_arrive();
#else
    static_assert(kSplit == 1, "clusters need sm_90");
#endif
  }
  /// Called by all threads before the first put().
  __device__ static void open() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kSplit > 1) cluster_wait();
#endif
  }

  __device__ void put(int slice, int row, int column, float x, float y) const {
    const int part = rank * kSlices + slice;
    float* const to = memory + (part * kOwnRows + row % kOwnRows) * kPitch + column;
#if __CUDA_ARCH__ >= 900
    if constexpr (kSplit > 1) {
      store_remote(remote_address(to, row / kOwnRows), make_float2(x, y));
      return;
    }
#endif
    *reinterpret_cast<float2*>(to) = make_float2(x, y);
  }

  /// Called by all threads after the last put().
  template <class Type>
  __device__ void finish(const GemmOutput<Type>& output, int row0, int column0) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kSplit > 1) cluster_sync();
#endif
    if constexpr (kSplit == 1) __syncthreads();
    enum { kAcross = kColumns / 4, kGroups = kOwnRows * kAcross };
#pragma unroll
    for (int first = 0; first < kGroups; first += kThreads) {
      const int group = first + static_cast<int>(threadIdx.x);
      if (kGroups % kThreads != 0 && group >= kGroups) break;
      const int row = group / kAcross, column = group % kAcross * 4;
      float sums[4] = {};
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const float4 x = *reinterpret_cast<const float4*>(memory + (part * kOwnRows + row) * kPitch + column);
        sums[0] += x.x, sums[1] += x.y, sums[2] += x.z, sums[3] += x.w;
      }
      output.put(row0 + rank * kOwnRows + row, column0 + column, sums);
    }
  }
};

/// Sends a warp's sums of kDown x kAcross parts of 16 x 8 to C, or to the other partial sums.
template <int kDown, int kAcross, class Partials, class Type>
__device__ inline void finish_sums(const float (&sums)[kDown][kAcross][4], const Partials& partials,
                                   const GemmOutput<Type>& output, int slice, int row, int column, int row0,
                                   int column0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  row += lane / 4, column += lane % 4 * 2;
  Partials::open();
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int y = row + 16 * i + 8 * half, x = column + 8 * j;
        const float pair[2] = {sums[i][j][2 * half], sums[i][j][2 * half + 1]};
        if constexpr (Partials::kParts > 1) {
          partials.put(slice, y, x, pair[0], pair[1]);
        } else {
          output.put(row0 + y, column0 + x, pair);
        }
      }
  if constexpr (Partials::kParts > 1) partials.finish(output, row0, column0);
}

/// The tile of a block: the cluster's blocks, which lie along x, share one. A grid's y is limited, so
/// columns go on along z.
template <int kRows, int kColumns, int kSplit>
struct GemmPlace {
  int rank, row0, column0;

  __device__ GemmPlace()
      : rank(static_cast<int>(blockIdx.x) % kSplit),
        row0(static_cast<int>(blockIdx.x) / kSplit * kRows),
        column0(static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * kColumns) {}
};

}  // namespace lathe
