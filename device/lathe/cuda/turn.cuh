#pragma once

#include "lathe/cuda/team.cuh"

// Tile transposition through shared memory, so that reads and writes are both coalesced.

namespace lathe {

/// The tile that turn_tile() transposes: from[r * from_pitch + c] goes to to[c * to_pitch + r], for
/// r < rows and c < columns.
template <class T>
struct Turn {
  const T* from;
  int64_t from_pitch;
  T* to;
  int64_t to_pitch;
  int64_t rows, columns;
};

/// What one access moves.
template <int kBytes>
struct Access;
template <>
struct Access<16> { using Type = float4; };
template <>
struct Access<8> { using Type = float2; };
template <>
struct Access<4> { using Type = float; };
template <>
struct Access<2> { using Type = unsigned short; };
template <>
struct Access<1> { using Type = unsigned char; };

/// kWidth adjacent elements.
template <class T, int kWidth>
struct Strip {
  using Wide = typename Access<kWidth * sizeof(T)>::Type;
  union {
    Wide wide;
    T each[kWidth];
  };
  __device__ Strip() {}
};

template <int kRows, int kColumns, int kThreads, int kWidth, class T, class In, class Out>
__device__ inline void turn_strips(const Turn<T>& turn, T* tile, In in, Out out) {
  using Wide = typename Strip<T, kWidth>::Wide;
  constexpr int kAcross = kColumns / kWidth, kDown = kThreads / kAcross, kSteps = kRows / kDown;
  constexpr int kTurnedAcross = kRows / kWidth, kTurnedDown = kThreads / kTurnedAcross;
  const int thread = static_cast<int>(threadIdx.x), column = thread % kAcross * kWidth;
  Strip<T, kWidth> strips[kSteps];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const int r = thread / kAcross + k * kDown;
    if (r < turn.rows && column < turn.columns)
      strips[k].wide = fetch(reinterpret_cast<const Wide*>(turn.from + r * turn.from_pitch + column), in);
  }
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      tile[(thread / kAcross + k * kDown) * (kColumns + 1) + column + i] = strips[k].each[i];
  __syncthreads();
  const int row = thread % kTurnedAcross * kWidth;
#pragma unroll
  for (int k = 0; k < kColumns / kTurnedDown; ++k) {
    const int c = thread / kTurnedAcross + k * kTurnedDown;
    Strip<T, kWidth> strip;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) strip.each[i] = tile[(row + i) * (kColumns + 1) + c];
    if (c < turn.columns && row < turn.rows)
      put(reinterpret_cast<Wide*>(turn.to + c * turn.to_pitch + row), strip.wide, out);
  }
}

/// For blocks of kThreads threads. `wide`: all rows of both matrices start and end at multiples of
/// 16 bytes.
template <int kRows, int kColumns, int kThreads, class T, class In, class Out>
__device__ inline void turn_tile(bool wide, const Turn<T>& turn, In in, Out out) {
  static_assert(kThreads <= kRows * kColumns / 4 && kThreads >= kRows && kThreads >= kColumns);
  __shared__ T tile[kRows * (kColumns + 1)];
  if (wide) {
    turn_strips<kRows, kColumns, kThreads, 4>(turn, tile, in, out);
  } else {
    turn_strips<kRows, kColumns, kThreads, 1>(turn, tile, in, out);
  }
}

}  // namespace lathe
