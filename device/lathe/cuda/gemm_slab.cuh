#pragma once

#include "lathe/cuda/mma.cuh"

namespace lathe {

/// The operands of a block's product, M x K by K x N, starting at the tile's first element.
template <bool kTransposedA, bool kTransposedB>
struct GemmOperands {
  const float* a;
  const float* b;
  int64_t row0, column0, m, n, k;

  /// Distance between rows in memory.
  __device__ int64_t lead_a() const { return kTransposedA ? m : k; }
  __device__ int64_t lead_b() const { return kTransposedB ? k : n; }
  __device__ static bool is_vector(const float* base, int64_t lead) {
    return lead % 4 == 0 && (reinterpret_cast<uint64_t>(base) & 15) == 0;
  }

  /// For so few terms the error of the split product may exceed fp32's; it also computes infinities
  /// and NaN wrongly.
  __device__ static bool wants_exact(float sum, int64_t terms) {
    return terms <= 8 || !(::fabsf(sum) <= LATHE_LARGEST);
  }
  /// The result of an fp32 loop over K.
  __device__ float exact(int64_t row, int64_t column) const {
    float sum = 0;
#pragma unroll 1
    for (int64_t i = 0; i < k; ++i)
      sum = ::fmaf(a[kTransposedA ? i * m + row : row * k + i],
                   b[kTransposedB ? column * k + i : i * n + column], sum);
    return sum;
  }
};

/// One operand's part of a step in shared memory: kOuter x kInner elements, contiguous along the
/// inner axis here and in memory. The pitch avoids bank conflicts when a warp reads fragments.
template <int kOuter, int kInner, int kThreads, bool kAlongDepth>
struct GemmSlab {
  enum {
    kPitch = kAlongDepth                               ? kInner + 4
             : (kInner % 32 == 8 || kInner % 32 == 24) ? kInner
                                                       : kInner + 8,
    kFloats = kOuter * kPitch
  };

  /// Starts an asynchronous copy from `from`; elements outside outer_left rows of inner_left
  /// elements become zeros.
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

  /// The TF32 fragment that a lane holds of a 16 x 8 part of A at (row, depth). If rows are
  /// contiguous in shared memory, a lane's two rows are adjacent; see row_of().
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
  /// The row, among the 16, of a lane's upper (0) or lower (1) half.
  __device__ static int row_of(int lane, int half) {
    return kAlongDepth ? lane / 4 + half * 8 : lane / 4 * 2 + half;
  }

  /// The fragments that a lane holds of kRun parts of B, 16 x 8 each, at (depth, column):
  /// [part][quarter of the depth]. Column c of part p is column c * kRun + p of the slab, counted
  /// from `column`.
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
