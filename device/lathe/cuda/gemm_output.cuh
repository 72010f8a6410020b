#pragma once

#include "lathe/cuda/cluster.cuh"
#include "lathe/cuda/half.cuh"
#include "lathe/cuda/warp.cuh"

// What the fp16 and bf16 matrix products have in common: the call, the result, and partial sums.

namespace lathe {

/// C = alpha A B + beta C, with C of m x n and rows in memory; the distances between rows (of C,
/// and of the operands as they are stored) are in elements. beta = 0 does not read C.
struct GemmCall {
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc;
  int m, n, k;
  float alpha, beta;
  void* workspace;  ///< for kernels that gather
};

/// For kernels that load factors by maps and store results themselves.
__device__ inline GemmCall call_of_sizes(int64_t m, int64_t n, int64_t k) {
  return {nullptr, nullptr, nullptr, 0, 0, 0, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1, 0, nullptr};
}

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

/// An output that goes on with the sums: put_one(row, column, sum) for every element inside M x N.
template <class PutOne>
struct EachElement {
  const PutOne& put_one;
  int m, n;

  template <int kCount>
  __device__ void put(int row, int column, const float (&sums)[kCount]) const {
    if (row >= m) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (column + i < n) put_one(row, column + i, sums[i]);
  }
};

/// A tile's partial sums, of kSlices groups of warps in each of the kSplit blocks of a cluster.
/// Every block owns a band of the tile's rows. A block adds its slices, then sends each owner its
/// band by one bulk copy; owners add in the order of blocks.
template <int kRows, int kColumns, int kSlices, int kSplit, int kThreads>
struct GemmPartials {
  enum {
    kOwnRows = kRows / kSplit,
    kPitch = kColumns + 8,
    kSlice = kRows * kPitch,
    kBand = kOwnRows * kPitch,
    kStagingBytes = kSlices * kSplit > 1 ? 4 * kSlices * kSlice : 0,
    kReceivedBytes = kSplit > 1 ? 4 * kSlice + 16 : 0  ///< the last 16 for a barrier
  };
  static constexpr bool kNeeded = kSlices * kSplit > 1;
  static_assert(kRows % kSplit == 0 && kColumns % 4 == 0);

  float* staging;   ///< may have been used for something else before the first put()
  float* received;  ///< others write here at any time
  int rank;         ///< of this block in the cluster

  __device__ Barrier& arrived() const { return *reinterpret_cast<Barrier*>(received + kSlice); }

  /// Called first of all.
  __device__ void begin() const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kSplit > 1) {
      if (threadIdx.x == 0) {
        init(arrived(), 1);
        fence_barriers();
        arrive_expecting(arrived(), 4 * kSlice);
      }
      __syncwarp();
      cluster_arrive();
    }
#else
    static_assert(kSplit == 1, "clusters need sm_90");
#endif
  }

  __device__ void put(int slice, int row, int column, float x, float y) const {
    *reinterpret_cast<float2*>(staging + slice * kSlice + row * kPitch + column) = make_float2(x, y);
  }

  /// Called by all threads after the last put().
  template <class Type>
  __device__ void finish(const GemmOutput<Type>& output, int row0, int column0) const {
    if constexpr (kSplit == 1) {
      __syncthreads();
      add<kSlices, kSlice, kRows>(staging, [&](int row, int column, const float (&sums)[4]) {
        output.put(row0 + row, column0 + column, sums);
      });
    } else {
#if __CUDA_ARCH__ >= 900
      if constexpr (kSlices > 1) {
        __syncthreads();
        add<kSlices, kSlice, kRows>(staging, [&](int row, int column, const float (&sums)[4]) {
          *reinterpret_cast<float4*>(staging + row * kPitch + column) =
              make_float4(sums[0], sums[1], sums[2], sums[3]);
        });
      }
      fence_writes();
      __syncthreads();
      cluster_wait();  // every block has started
      if (threadIdx.x < kSplit) {
        const int owner = static_cast<int>(threadIdx.x);
        copy_to_remote(remote_address(received + rank * kBand, owner), staging + threadIdx.x * kBand, 4 * kBand,
                       remote_address(&arrived(), owner));
      }
      wait(arrived(), 0);
      __syncwarp();
      cluster_arrive();
      add<kSplit, kBand, kOwnRows>(received, [&](int row, int column, const float (&sums)[4]) {
        output.put(row0 + rank * kOwnRows + row, column0 + column, sums);
      });
      cluster_wait();  // what this block sent has been read
#endif
    }
  }

 private:
  /// put(row, column, sums) for every four columns, of kParts matrices of kHeight rows, kDistance
  /// apart.
  template <int kParts, int kDistance, int kHeight, class Put>
  __device__ static void add(const float* from, const Put& put) {
    enum { kAcross = kColumns / 4, kGroups = kHeight * kAcross };
#pragma unroll
    for (int first = 0; first < kGroups; first += kThreads) {
      const int group = first + static_cast<int>(threadIdx.x);
      if ((kGroups - first) < kThreads && group >= kGroups) break;
      const int row = group / kAcross, column = group % kAcross * 4;
      float sums[4] = {};
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const float4 x = *reinterpret_cast<const float4*>(from + part * kDistance + row * kPitch + column);
        sums[0] += x.x, sums[1] += x.y, sums[2] += x.z, sums[3] += x.w;
      }
      put(row, column, sums);
    }
  }
  /// For bulk copies, by the writing threads.
  __device__ static void fence_writes() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }
};

/// Sends a warp's sums of kDown x kAcross parts of 16 x 8 to C, or to the other partial sums.
template <int kDown, int kAcross, class Partials, class Type>
__device__ inline void finish_sums(const float (&sums)[kDown][kAcross][4], const Partials& partials,
                                   const GemmOutput<Type>& output, int slice, int row, int column, int row0,
                                   int column0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  row += lane / 4, column += lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int y = row + 16 * i + 8 * half, x = column + 8 * j;
        const float pair[2] = {sums[i][j][2 * half], sums[i][j][2 * half + 1]};
        if constexpr (Partials::kNeeded) {
          partials.put(slice, y, x, pair[0], pair[1]);
        } else {
          output.put(row0 + y, column0 + x, pair);
        }
      }
  if constexpr (Partials::kNeeded) partials.finish(output, row0, column0);
}

/// The tile of a block: the cluster's blocks, which lie along x, share one. A grid's y is limited,
/// so columns go on along z.
template <int kRows, int kColumns, int kSplit>
struct GemmPlace {
  int rank, row0, column0;

  __device__ GemmPlace()
      : rank(static_cast<int>(blockIdx.x) % kSplit),
        row0(static_cast<int>(blockIdx.x) / kSplit * kRows),
        column0(static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y) * kColumns) {}
};

}  // namespace lathe
