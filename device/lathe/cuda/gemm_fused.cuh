#pragma once

#include "lathe/cuda/gemm_mma.cuh"

namespace lathe {

/// One block's tile of C = A B of fp16 or bf16, with sums in fp32, for a kernel that goes on with
/// them: put(row, column, sum) is called once for every element inside M x N, neighbours in
/// neighbouring lanes. kTransposedA: A is stored as [K][M]; kTransposedB: B is stored as [N][K].
/// See GemmBlock for the other parameters, and MmaGemm for how operands come.
template <class Type, int kRows, int kColumns, int kDepth, int kStages, int kWarpRows, int kWarpColumns,
          int kSlices, int kSplit, bool kTransposedA, bool kTransposedB>
struct FusedGemm {
  using Block = GemmBlock<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit>;
  using Place = typename Block::Place;
  template <GemmEdges kEdges>
  using Product = MmaGemm<Type, !kTransposedA, kTransposedB, kRows, kColumns, kDepth, kStages, Block::kDown,
                          Block::kAcross, kSlices, 1, 0, kEdges>;
  enum {
    kThreads = Block::kThreads,
    kRing = 2 * kStages * Product<GemmEdges::kAny>::kStage,
    kSumBytes = 4 * Block::kSumFloats,
    kBytes = kRing > kSumBytes ? kRing : kSumBytes
  };

  const Type* a;
  const Type* b;
  int64_t row0, column0, m, n, k;

  __device__ static Place place(int64_t item, int64_t m, int64_t n) { return Block::place(item, m, n); }

  template <class Put>
  __device__ void run(const Put& put) const {
    extern __shared__ __align__(1024) unsigned char memory[];
    const GemmCall call{a,      b,      nullptr, kTransposedA ? m : k, kTransposedB ? k : n, n, static_cast<int>(m),
                        static_cast<int>(n), static_cast<int>(k), 1, 0, nullptr};
    using Aligned = Product<GemmEdges::kVectors>;
    const int width_a = Aligned::width_of(a, call.lda), width_b = Aligned::width_of(b, call.ldb);
    typename Aligned::Sums sums = {};
    if (width_a == 16 && width_b == 16)
      accumulate<GemmEdges::kVectors>(call, width_a, width_b, memory, sums);
    else
      accumulate<GemmEdges::kAny>(call, width_a, width_b, memory, sums);
    __syncthreads();
    auto* const tile = reinterpret_cast<float*>(memory);
    keep(tile, sums);
    Block::hand_out(tile, row0, column0, m, n, put);
  }

 private:
  using Sums = float[Block::kTilesDown][Block::kTilesAcross][4];

  template <GemmEdges kEdges>
  __device__ void accumulate(const GemmCall& call, int width_a, int width_b, unsigned char* memory, Sums& sums) const {
    const Product<kEdges> product{call, static_cast<int>(row0), static_cast<int>(column0), width_a, width_b};
    const typename Block::Steps steps = Block::steps(k);
    product.accumulate(reinterpret_cast<Type*>(memory), steps.first, steps.last - steps.first,
                       Product<kEdges>::Block::warp(), sums);
  }

  __device__ static void keep(float* tile, const Sums& sums) {
    const typename Block::Warp own = Block::warp();
    tile += (own.slice * kRows + own.row + own.lane / 4) * Block::kPitch + own.column + own.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Block::kTilesDown; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < Block::kTilesAcross; ++j)
          *reinterpret_cast<float2*>(tile + (16 * i + 8 * half) * Block::kPitch + 8 * j) =
              make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
  }
};

}  // namespace lathe
