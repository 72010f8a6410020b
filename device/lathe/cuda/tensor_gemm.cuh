#pragma once

#include "lathe/cuda/gemm_tile.cuh"

namespace lathe {

/// The number of columns of B that a lane loads at once.
#define LATHE_GEMM_RUN(transposed, columns) \
  ((transposed) || (columns) % 16 != 0 ? 1 : (columns) % 32 != 0 ? 2 : 4)

/// One block's tile of C = A B on tensor cores with fp32 accuracy. Each operand is split into two
/// TF32 numbers. The leading product is accumulated for kChunk steps and then added to fp32 sums,
/// because tensor cores round towards zero; the two small products have separate sums. Partial sums
/// are added in a fixed order. Non-finite results are recomputed in fp32, so that infinities and
/// NaN are as in fp32. put(row, column, sum) is called once for every element inside M x N.
template <int kRows, int kColumns, int kDepth, int kStages, int kWarpRows, int kWarpColumns, int kSlices,
          int kSplit, bool kTransposedA, bool kTransposedB>
struct TensorGemm : GemmTile<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit, kTransposedA,
                             kTransposedB, LATHE_GEMM_RUN(kTransposedB, kWarpColumns)> {
  enum { kRun = LATHE_GEMM_RUN(kTransposedB, kWarpColumns) };
  using Tile = GemmTile<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit, kTransposedA,
                        kTransposedB, kRun>;
  using Tile::kStageFloats, Tile::kTilesAcross, Tile::kTilesDown;
  using typename Tile::SlabA, typename Tile::SlabB, typename Tile::Sums, typename Tile::Warp;
  enum {
    kChunk = 16,
    kShare = kDepth / kSlices,
    kTogether = kTilesDown * kTilesAcross <= 8 ? kTilesDown : 1,  ///< tile rows computed together, for independent sums
    kBytes = 4 * (kStages * kStageFloats > Tile::kSumFloats ? kStages * kStageFloats : Tile::kSumFloats)
  };
  static_assert(kShare % kChunk == 0);

  /// sums += A B over this warp's share of a step.
  __device__ static void multiply(const float* stage, const Warp& warp, Sums& sums) {
#pragma unroll
    for (int at = 0; at < kShare; at += kChunk) {
      const int depth = warp.slice * kShare + at;
      uint32_t big_b[2][kTilesAcross][2], small_b[2][kTilesAcross][2];
#pragma unroll
      for (int j = 0; j < kTilesAcross; j += kRun) {
        float columns[kRun][4];
        SlabB::template load_columns<kRun>(stage + SlabA::kFloats, warp.lane, depth, warp.column + j * 8,
                                           columns);
#pragma unroll
        for (int part = 0; part < kRun; ++part)
#pragma unroll
          for (int q = 0; q < 4; ++q)
            split_tf32(columns[part][q], big_b[q / 2][j + part][q % 2], small_b[q / 2][j + part][q % 2]);
      }
#pragma unroll
      for (int i0 = 0; i0 < kTilesDown; i0 += kTogether) {
        float chunk[kTogether][kTilesAcross][4] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t big_a[kTogether][4], small_a[kTogether][4];
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            float rows[4];
            SlabA::load_rows(stage, warp.lane, warp.row + (i0 + i) * 16, depth + half * 8, rows);
#pragma unroll
            for (int q = 0; q < 4; ++q) split_tf32(rows[q], big_a[i][q], small_a[i][q]);
          }
          multiply_all(sums.small, i0, small_a, big_b[half]);
          multiply_all(chunk, 0, big_a, big_b[half]);
          multiply_all(sums.small, i0, big_a, small_b[half]);
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
#pragma unroll
          for (int j = 0; j < kTilesAcross; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sums.big[i0 + i][j][e] += chunk[i][j][e];
      }
    }
  }

  template <int kDownTiles>
  __device__ static void multiply_all(float (&c)[kDownTiles][kTilesAcross][4], int i0,
                                      const uint32_t (&a)[kTogether][4],
                                      const uint32_t (&b)[kTilesAcross][2]) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
#pragma unroll
      for (int j = 0; j < kTilesAcross; ++j) multiply_tf32(c[i0 + i][j], a[i], b[j]);
  }

  /// Copies are prefetched kStages - 1 steps ahead.
  template <class Put>
  __device__ void run(const Put& put) const {
    extern __shared__ __align__(1024) float shared[];
    const Warp own = this->warp();
    const typename Tile::Steps steps = Tile::steps(this->k);
    const bool vector_a = this->is_vector(this->a, this->lead_a());
    const bool vector_b = this->is_vector(this->b, this->lead_b());
    const auto ahead = [&](int step) {
      if (step < steps.last)
        this->fetch(shared + (step - steps.first) % kStages * kStageFloats, int64_t{step} * kDepth, vector_a,
                    vector_b);
      end_group();
    };
    Sums sums;
#pragma unroll 1
    for (int step = steps.first - (kStages - 1); step < steps.last; ++step) {
      const bool here = step >= steps.first;
      if (here) {
        await_groups<kStages - 2>();
        __syncthreads();
      }
      ahead(step + kStages - 1);
      if (here) multiply(shared + (step - steps.first) % kStages * kStageFloats, own, sums);
    }
    await_groups<0>();
    __syncthreads();
    this->finish(shared, own, sums, put);
  }
};

}  // namespace lathe
