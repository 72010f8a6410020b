#pragma once

#include "lathe/cuda/gemm_block.cuh"
#include "lathe/cuda/gemm_slab.cuh"

namespace lathe {

/// The common part of matrix-product kernels in fp32: copies operands to shared memory and writes
/// results. kTransposedA: A is stored as [K][M]; kTransposedB: B is stored as [N][K]. kRun: see
/// GemmSlab::load_columns.
template <int kRows, int kColumns, int kDepth, int kWarpRows, int kWarpColumns, int kSlices, int kSplit,
          bool kTransposedA, bool kTransposedB, int kRun>
struct GemmTile : GemmOperands<kTransposedA, kTransposedB>,
                  GemmBlock<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit> {
  using Operands = GemmOperands<kTransposedA, kTransposedB>;
  using Block = GemmBlock<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit>;
  using Operands::a, Operands::b, Operands::row0, Operands::column0, Operands::m, Operands::n, Operands::k;
  using Block::kThreads, Block::kTilesDown, Block::kTilesAcross, Block::kPitch, Block::clamped;
  using typename Block::Warp;
  using SlabA =
      GemmSlab<kTransposedA ? kDepth : kRows, kTransposedA ? kRows : kDepth, kThreads, !kTransposedA>;
  using SlabB =
      GemmSlab<kTransposedB ? kColumns : kDepth, kTransposedB ? kDepth : kColumns, kThreads, kTransposedB>;
  enum { kStageFloats = int{SlabA::kFloats} + int{SlabB::kFloats} };

  struct Sums {
    float big[kTilesDown][kTilesAcross][4] = {};
    float small[kTilesDown][kTilesAcross][4] = {};  ///< scaled by LATHE_SMALL_SCALE

    __device__ float at(int i, int j, int e) const {
      return ::fmaf(small[i][j][e], 1 / LATHE_SMALL_SCALE, big[i][j][e]);
    }
  };

  __device__ void fetch(float* stage, int64_t k0, bool vector_a, bool vector_b) const {
    const int depth = clamped(k - k0), rows = clamped(m - row0), columns = clamped(n - column0);
    const float* from_a = kTransposedA ? a + k0 * m + row0 : a + row0 * k + k0;
    const float* from_b = kTransposedB ? b + column0 * k + k0 : b + k0 * n + column0;
    const int outer_a = kTransposedA ? depth : rows, inner_a = kTransposedA ? rows : depth;
    const int outer_b = kTransposedB ? columns : depth, inner_b = kTransposedB ? depth : columns;
    float* const stage_b = stage + SlabA::kFloats;
    if (vector_a)
      SlabA::template copy<4>(stage, from_a, this->lead_a(), outer_a, inner_a);
    else
      SlabA::template copy<1>(stage, from_a, this->lead_a(), outer_a, inner_a);
    if (vector_b)
      SlabB::template copy<4>(stage_b, from_b, this->lead_b(), outer_b, inner_b);
    else
      SlabB::template copy<1>(stage_b, from_b, this->lead_b(), outer_b, inner_b);
  }

  __device__ static void keep(float* tile, const Warp& warp, const Sums& sums) {
    tile += warp.slice * (kRows * kPitch);
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const row = tile + (warp.row + i * 16 + SlabA::row_of(warp.lane, half)) * kPitch + warp.column;
#pragma unroll
        for (int j = 0; j < kTilesAcross; j += kRun)
#pragma unroll
          for (int e = 0; e < 2 * kRun; e += 2) {
            float* const to = row + j * 8 + warp.lane % 4 * (2 * kRun) + e;
            const auto at = [&](int of) { return sums.at(i, j + of % kRun, 2 * half + of / kRun); };
            *reinterpret_cast<float2*>(to) = {at(e), at(e + 1)};
          }
      }
  }

  /// Adds the partial sums of the cluster's blocks and outputs the result.
  template <class Put>
  __device__ void finish(float* shared, const Warp& warp, const Sums& sums, const Put& put) const {
    keep(shared, warp, sums);
    Block::hand_out(shared, row0, column0, m, n, [&](int64_t row, int64_t column, float sum) {
      if (Operands::wants_exact(sum, k)) sum = this->exact(row, column);
      put(row, column, sum);
    });
  }
};

}  // namespace lathe
