#pragma once

#include "lathe/cuda/gemm_slab.cuh"

namespace lathe {

/// The common part of matrix-product kernels: assigns tiles to blocks, copies operands to shared
/// memory and writes results. Each warp computes kWarpRows x kWarpColumns of the tile; kSlices
/// groups of warps split a step of K, and kSplit blocks of a cluster split K. kTransposedA: A is
/// stored as [K][M]; kTransposedB: B is stored as [N][K]. kRun: see GemmSlab::load_columns.
template <int kRows, int kColumns, int kDepth, int kWarpRows, int kWarpColumns, int kSlices, int kSplit,
          bool kTransposedA, bool kTransposedB, int kRun>
struct GemmTile : GemmOperands<kTransposedA, kTransposedB> {
  using Operands = GemmOperands<kTransposedA, kTransposedB>;
  using Operands::a, Operands::b, Operands::row0, Operands::column0, Operands::m, Operands::n, Operands::k;
  enum {
    kDown = kRows / kWarpRows,
    kAcross = kColumns / kWarpColumns,
    kThreads = 32 * kDown * kAcross * kSlices,
    kTilesDown = kWarpRows / 16,
    kTilesAcross = kWarpColumns / 8,
    kPitch = kColumns + 8,
    kSumFloats = kSlices * kRows * kPitch
  };
  static_assert(kRows % kWarpRows == 0 && kColumns % kWarpColumns == 0 && kRows % kSplit == 0);
  using SlabA =
      GemmSlab<kTransposedA ? kDepth : kRows, kTransposedA ? kRows : kDepth, kThreads, !kTransposedA>;
  using SlabB =
      GemmSlab<kTransposedB ? kColumns : kDepth, kTransposedB ? kDepth : kColumns, kThreads, kTransposedB>;
  enum { kStageFloats = int{SlabA::kFloats} + int{SlabB::kFloats} };

  struct Warp {
    int lane, row, column, slice;  ///< position of the warp's part inside the tile
  };
  struct Place {
    int64_t outer, row, column;  ///< index in the batch, and the tile's first element
  };
  struct Steps {
    int first, last;  ///< this block's range of K
  };
  struct Sums {
    float big[kTilesDown][kTilesAcross][4] = {};
    float small[kTilesDown][kTilesAcross][4] = {};  ///< scaled by LATHE_SMALL_SCALE

    __device__ float at(int i, int j, int e) const {
      return ::fmaf(small[i][j][e], 1 / LATHE_SMALL_SCALE, big[i][j][e]);
    }
  };

  /// The tile of a work item. Consecutive items run through bands of 8 tile rows, so that
  /// concurrent tiles share operands in the L2.
  __device__ static Place place(int64_t item, int64_t m, int64_t n) {
    const auto down = static_cast<uint32_t>(cdiv(m, kRows)),
               across = static_cast<uint32_t>(cdiv(n, kColumns));
    const auto number = static_cast<uint32_t>(item), outer = number / (down * across);
    const uint32_t tile = number % (down * across), band = tile / (8 * across), inside = tile % (8 * across);
    const uint32_t height = down - band * 8 < 8 ? down - band * 8 : 8;
    return {outer, int64_t{kRows} * (band * 8 + inside % height), int64_t{kColumns} * (inside / height)};
  }
  __device__ static int clamped(int64_t left) { return static_cast<int>(left < 4096 ? left : 4096); }
  __device__ static Warp warp() {
    const int index = static_cast<int>(threadIdx.x) / 32, place = index % (kDown * kAcross);
    return {static_cast<int>(threadIdx.x) % 32, place / kAcross * kWarpRows, place % kAcross * kWarpColumns,
            index / (kDown * kAcross)};
  }

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

  __device__ Steps steps() const {
    const int all = static_cast<int>(cdiv(k, kDepth)), each = (all + kSplit - 1) / kSplit, rank = rank_of();
    const int first = rank * each < all ? rank * each : all;
    return {first, first + each < all ? first + each : all};
  }
  __device__ static int rank_of() { return kSplit > 1 ? static_cast<int>(blockIdx.x % kSplit) : 0; }

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

  /// Reduces the partial sums of the cluster's blocks and outputs the result.
  template <class Put>
  __device__ void finish(float* shared, const Warp& warp, const Sums& sums, const Put& put) const {
    keep(shared, warp, sums);
    sync();
    hand_out(shared, rank_of(), put);
    if (kSplit > 1) sync();
  }

  __device__ static void sync() {
    if constexpr (kSplit > 1) {
      sync_cluster();
    } else {
      __syncthreads();
    }
  }

  /// Each block of the cluster reduces and outputs its share of the rows.
  template <class Put>
  __device__ void hand_out(const float* tile, int rank, const Put& put) const {
    enum { kOwnRows = kRows / kSplit, kStep = kThreads / kColumns };
    static_assert(kThreads % kColumns == 0);
    const int first = rank * kOwnRows, left = clamped(m - row0) - first;
    const int rows = left < kOwnRows ? left : kOwnRows, column = static_cast<int>(threadIdx.x) % kColumns;
    if (column0 + column >= n) return;
#pragma unroll 2
    for (int row = static_cast<int>(threadIdx.x) / kColumns; row < rows; row += kStep) {
      float sum = 0;
#pragma unroll
      for (int part = 0; part < kSplit * kSlices; ++part) {
        const float* at = tile + (part % kSlices * kRows + first + row) * kPitch + column;
        sum += kSplit > 1 ? load_of_block(at, part / kSlices) : *at;
      }
      if (Operands::wants_exact(sum, k)) sum = this->exact(row0 + first + row, column0 + column);
      put(row0 + first + row, column0 + column, sum);
    }
  }
};

}  // namespace lathe
