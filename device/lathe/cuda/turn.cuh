#pragma once

#include "lathe/cuda/team.cuh"

// Tiles that turn round in shared memory, so that reads and writes both run along warps.

namespace lathe {

/// What turn_tile moves: from[r * from_pitch + c] to to[c * to_pitch + r], for r < rows and c < columns.
struct Turn {
  const float* from;
  int64_t from_pitch;
  float* to;
  int64_t to_pitch;
  int64_t rows, columns;
};

template <int kTile, int kWidth>
struct Strip;  // kWidth neighbouring elements
template <int kTile>
struct Strip<kTile, 4> {
  using Wide = float4;
};
template <int kTile>
struct Strip<kTile, 1> {
  using Wide = float;
};

template <int kTile, int kWidth, class Use>
__device__ inline void turn_strips(const Turn& turn, float* tile, Use use) {
  using Wide = typename Strip<kTile, kWidth>::Wide;
  constexpr int kAcross = kTile / kWidth, kDown = 256 / kAcross, kSteps = kTile / kDown;
  const int across = static_cast<int>(threadIdx.x) % kAcross * kWidth;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  union Piece {
    Wide wide;
    float each[kWidth];
    __device__ Piece() {}
  };
  Piece pieces[kSteps];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const int r = down + k * kDown;
    if (r < turn.rows && across < turn.columns)
      pieces[k].wide = fetch(reinterpret_cast<const Wide*>(turn.from + r * turn.from_pitch + across), use);
  }
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < kWidth; ++i) tile[(down + k * kDown) * (kTile + 1) + across + i] = pieces[k].each[i];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const int c = down + k * kDown;
    Piece piece;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) piece.each[i] = tile[(across + i) * (kTile + 1) + c];
    if (c < turn.columns && across < turn.rows)
      put(reinterpret_cast<Wide*>(turn.to + c * turn.to_pitch + across), piece.wide, use);
  }
}

/// For blocks of 256 threads. `wide`: every row of both sides is aligned to 16 bytes and a multiple long.
template <int kTile, class Use>
__device__ inline void turn_tile(bool wide, const Turn& turn, Use use) {
  __shared__ float tile[kTile * (kTile + 1)];
  if (wide) {
    turn_strips<kTile, 4>(turn, tile, use);
  } else {
    turn_strips<kTile, 1>(turn, tile, use);
  }
}

}  // namespace lathe
