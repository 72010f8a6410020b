#pragma once

#include "lathe/cuda/mma.cuh"

namespace lathe {

/// How the blocks of a product share its tiles, and how their sums come out. A block has
/// kRows x kColumns of the result, each of its warps kWarpRows x kWarpColumns; kSlices groups of
/// warps split a step of kDepth terms, and kSplit blocks of a cluster split K.
template <int kRows, int kColumns, int kDepth, int kWarpRows, int kWarpColumns, int kSlices, int kSplit>
struct GemmBlock {
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

  struct Warp {
    int lane, row, column, slice;  ///< position of the warp's part inside the tile
  };
  struct Place {
    int64_t outer, row, column;  ///< index in the batch, and the tile's first element
  };
  struct Steps {
    int first, last;  ///< this block's range of K
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
  __device__ static Steps steps(int64_t k) {
    const int all = static_cast<int>(cdiv(k, kDepth)), each = (all + kSplit - 1) / kSplit, rank = rank_of();
    const int first = rank * each < all ? rank * each : all;
    return {first, first + each < all ? first + each : all};
  }
  __device__ static int rank_of() { return kSplit > 1 ? static_cast<int>(blockIdx.x % kSplit) : 0; }
  __device__ static void sync() {
    if constexpr (kSplit > 1) {
      sync_cluster();
    } else {
      __syncthreads();
    }
  }

  /// Adds the partial sums of the cluster's blocks, which each has in its `tile`: a block takes its
  /// share of the rows. put(row, column, sum) is called once for every element inside M x N. By all
  /// threads, after all sums were written.
  template <class Put>
  __device__ static void hand_out(const float* tile, int64_t row0, int64_t column0, int64_t m, int64_t n,
                                  const Put& put) {
    sync();
    hand_out_rows(tile, rank_of(), row0, column0, m, n, put);
    if (kSplit > 1) sync();
  }

 private:
  template <class Put>
  __device__ static void hand_out_rows(const float* tile, int rank, int64_t row0, int64_t column0, int64_t m,
                                       int64_t n, const Put& put) {
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
      put(row0 + first + row, column0 + column, sum);
    }
  }
};

}  // namespace lathe
