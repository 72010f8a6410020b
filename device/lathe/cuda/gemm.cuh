#pragma once

#include "lathe/cuda/math.cuh"

namespace lathe {

/// One block's tile of C = A B in fp32, kRows x kColumns from (row0, column0): each of the block's
/// (kRows / kThreadRows) * (kColumns / kThreadColumns) threads sums kThreadRows x kThreadColumns elements (in
/// fours) while the next kDepth steps of both operands come to shared memory. put(row, column, sum) is called
/// for every element inside M x N. kTransposedA: A lies as [K][M]; kTransposedB: B lies as [N][K].
template <int kRows, int kColumns, int kDepth, int kThreadRows, int kThreadColumns, bool kTransposedA,
          bool kTransposedB>
struct GemmBlock {
  static constexpr int kAcross = kColumns / kThreadColumns, kDown = kRows / kThreadRows;
  static constexpr int kThreads = kAcross * kDown;
  static constexpr int kLoadA = kRows * kDepth / kThreads, kLoadB = kColumns * kDepth / kThreads;
  static constexpr int kPad = 4;
  static_assert(kRows * kDepth % kThreads == 0 && kColumns * kDepth % kThreads == 0);
  static_assert(kThreadRows % 4 == 0 && kThreadColumns % 4 == 0);

  struct Shared {
    float a[2][kDepth][kRows + kPad];
    float b[2][kDepth][kColumns + kPad];
  };
  struct Ahead {
    float a[kLoadA], b[kLoadB];
  };

  const float* a;
  const float* b;
  int64_t row0, column0, m, n, k;

  /// Elements of neighbouring threads are neighbours in memory.
  __device__ static int a_row(int e) { return kTransposedA ? e % kRows : e / kDepth; }
  __device__ static int a_step(int e) { return kTransposedA ? e / kRows : e % kDepth; }
  __device__ static int b_column(int e) { return kTransposedB ? e / kDepth : e % kColumns; }
  __device__ static int b_step(int e) { return kTransposedB ? e % kDepth : e / kColumns; }
  /// A thread's elements lie in fours, so that a warp reads shared memory without conflicts.
  template <int kCount, int kParts>
  __device__ static int place(int part, int i) {
    return i / 4 * (4 * kParts) + part * 4 + i % 4;
  }

  __device__ void fetch(int64_t k0, Ahead& ahead) const {
#pragma unroll
    for (int i = 0; i < kLoadA; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      const int64_t row = row0 + a_row(e), step = k0 + a_step(e);
      ahead.a[i] = row < m && step < k ? a[kTransposedA ? step * m + row : row * k + step] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLoadB; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      const int64_t column = column0 + b_column(e), step = k0 + b_step(e);
      ahead.b[i] = column < n && step < k ? b[kTransposedB ? column * k + step : step * n + column] : 0.0f;
    }
  }

  __device__ static void keep(const Ahead& ahead, Shared& shared, int half) {
#pragma unroll
    for (int i = 0; i < kLoadA; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      shared.a[half][a_step(e)][a_row(e)] = ahead.a[i];
    }
#pragma unroll
    for (int i = 0; i < kLoadB; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      shared.b[half][b_step(e)][b_column(e)] = ahead.b[i];
    }
  }

  template <class Put>
  __device__ void run(const Put& put) const {
    __shared__ Shared shared;
    const int across = static_cast<int>(threadIdx.x) % kAcross, down = static_cast<int>(threadIdx.x) / kAcross;
    float sums[kThreadRows][kThreadColumns] = {};
    Ahead ahead;
    fetch(0, ahead);
    keep(ahead, shared, 0);
    __syncthreads();
    int half = 0;
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const bool more = k0 + kDepth < k;
      if (more) fetch(k0 + kDepth, ahead);
#pragma unroll
      for (int step = 0; step < kDepth; ++step) {
        float left[kThreadRows], right[kThreadColumns];
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i)
          left[i] = shared.a[half][step][place<kThreadRows, kDown>(down, i)];
#pragma unroll
        for (int j = 0; j < kThreadColumns; ++j)
          right[j] = shared.b[half][step][place<kThreadColumns, kAcross>(across, j)];
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i)
#pragma unroll
          for (int j = 0; j < kThreadColumns; ++j) sums[i][j] = ::fmaf(left[i], right[j], sums[i][j]);
      }
      if (!more) break;
      half ^= 1;
      keep(ahead, shared, half);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const int64_t row = row0 + place<kThreadRows, kDown>(down, i);
#pragma unroll
      for (int j = 0; j < kThreadColumns; ++j) {
        const int64_t column = column0 + place<kThreadColumns, kAcross>(across, j);
        if (row < m && column < n) put(row, column, sums[i][j]);
      }
    }
  }
};

}  // namespace lathe
