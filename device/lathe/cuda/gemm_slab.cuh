#pragma once

#include "lathe/cuda/mma.cuh"

namespace lathe {

/// What a block multiplies: M x K by K x N, from the tile's first element on.
template <bool kTransposedA, bool kTransposedB>
struct GemmOperands {
  const float* a;
  const float* b;
  int64_t row0, column0, m, n, k;

  /// From one row in memory to the next.
  __device__ int64_t lead_a() const { return kTransposedA ? m : k; }
  __device__ int64_t lead_b() const { return kTransposedB ? k : n; }
  __device__ static bool is_vector(const float* base, int64_t lead) {
    return lead % 4 == 0 && (reinterpret_cast<uint64_t>(base) & 15) == 0;
  }

  /// Of so few terms the parts' errors may exceed fp32's; infinities and NaN come out of parts wrong.
  __device__ static bool wants_exact(float sum, int64_t terms) {
    return terms <= 8 || !(::fabsf(sum) <= LATHE_LARGEST);
  }
  /// As a loop over K in fp32 gives it.
  __device__ float exact(int64_t row, int64_t column) const {
    float sum = 0;
#pragma unroll 1
    for (int64_t i = 0; i < k; ++i)
      sum = ::fmaf(a[kTransposedA ? i * m + row : row * k + i],
                   b[kTransposedB ? column * k + i : i * n + column], sum);
    return sum;
  }
};

/// One operand's share of a step in shared memory. kOuter x kInner elements, the inner ones neighbours both
/// here and in memory; the pitch lets a warp read fragments without conflicts.
template <int kOuter, int kInner, int kThreads, bool kAlongDepth>
struct GemmSlab {
  enum {
    kPitch = kAlongDepth                               ? kInner + 4
             : (kInner % 32 == 8 || kInner % 32 == 24) ? kInner
                                                       : kInner + 8,
    kFloats = kOuter * kPitch
  };

  /// Starts the copy of what lies at `from`; zeros stand beyond outer_left rows of inner_left elements.
  template <int kVector>
  __device__ static void copy(float* to, const float* from, int64_t lead, int outer_left, int inner_left) {
    enum { kAcross = kInner / kVector, kStep = kThreads / kAcross };
    static_assert(kThreads % kAcross == 0);
    const int outer = static_cast<int>(threadIdx.x) / kAcross;
    const int inner = static_cast<int>(threadIdx.x) % kAcross * kVector;
    const float* row = from + outer * lead + inner;
    const bool column_inside = inner < inner_left;
#pragma unroll
    for (int i = 0; i < (kOuter + kStep - 1) / kStep; ++i) {
      const int at = outer + i * kStep;
      if (kOuter % kStep != 0 && at >= kOuter) break;
      const bool inside = column_inside && at < outer_left;
      float* const target = to + at * kPitch + inner;
      if constexpr (kVector == 4) {
        copy_ahead_16(target, inside ? row : from, inside);
      } else {
        copy_ahead_4(target, inside ? row : from, inside);
      }
      row += kStep * lead;
    }
  }

  /// Of the operand in TF32: what a warp's lane holds of a 16 x 8 part of A at (row, depth). Rows that follow
  /// each other in shared memory are a lane's two where they are neighbours, see row_of.
  __device__ static void load_rows(const float* slab, int lane, int row, int depth, float (&to)[4]) {
    if constexpr (kAlongDepth) {
      load_matrices(to, slab + (row + lane % 16) * kPitch + depth + lane / 16 * 4);
    } else {
      const float* at = slab + (depth + lane % 4) * kPitch + row + lane / 4 * 2;
      const float2 first = *reinterpret_cast<const float2*>(at);
      const float2 second = *reinterpret_cast<const float2*>(at + 4 * kPitch);
      to[0] = first.x, to[1] = first.y, to[2] = second.x, to[3] = second.y;
    }
  }
  /// The row of a lane's upper (0) or lower (1) half inside the 16.
  __device__ static int row_of(int lane, int half) {
    return kAlongDepth ? lane / 4 + half * 8 : lane / 4 * 2 + half;
  }

  /// What a lane holds of kRun parts of B, 16 x 8 each, at (depth, column): [part][quarter of the depth].
  /// Column c of part p is the slab's column c * kRun + p from there.
  template <int kRun>
  __device__ static void load_columns(const float* slab, int lane, int depth, int column,
                                      float (&to)[kRun][4]) {
    if constexpr (kAlongDepth) {
      static_assert(kRun == 1);
      load_matrices(to[0], slab + (column + lane % 8) * kPitch + depth + lane / 8 * 4);
    } else {
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter) {
        struct alignas(4 * kRun) Run {
          float x[kRun];
        };
        const float* at = slab + (depth + quarter * 4 + lane % 4) * kPitch + column + lane / 4 * kRun;
        const Run run = *reinterpret_cast<const Run*>(at);
#pragma unroll
        for (int part = 0; part < kRun; ++part) to[part][quarter] = run.x[part];
      }
    }
  }
};

}  // namespace lathe
