#pragma once

#include "lathe/cuda/gemm_output.cuh"

namespace lathe {

/// A product for little work, where only latency counts: operands go from memory into the registers
/// of the tensor cores' fragments, without shared memory. Both operands are contiguous along K. A
/// block of kWarps warps computes a tile of kRows x kColumns; each warp has all of it for its share
/// of K, kSteps times 32 terms in turn with the other warps of the cluster's kSplit blocks, so that
/// nothing is loaded twice. kAhead: how many of the steps are loaded before the first is
/// multiplied.
///
/// A product's sum may take its terms in any order: a lane loads eight neighbours along K (16
/// bytes), and the same permutation of K for both operands makes them four registers of fragments.
///
/// Requires K = 32 kSteps kWarps kSplit, and operands and their rows aligned to 16 bytes. Rows
/// beyond an edge repeat the last one and are not stored.
template <class Type, int kRows, int kColumns, int kWarps, int kSplit, int kSteps, int kAhead>
struct DirectGemm {
  enum { kThreads = 32 * kWarps, kDown = kRows / 16, kAcross = kColumns / 8, kTerms = 32 };
  using Partials = GemmPartials<kRows, kColumns, kWarps, kSplit, kThreads>;
  static_assert(kRows % 16 == 0 && kColumns % 8 == 0 && kSteps % kAhead == 0);

  struct Fragments {
    uint4 a[2 * kDown], b[kAcross];
  };

  __device__ static uint4 load(const Type* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }

  __device__ static void multiply(const Fragments& f, float (&sums)[kDown][kAcross][4]) {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const uint4 &upper = f.a[2 * i], &lower = f.a[2 * i + 1], &b = f.b[j];
        mma(Type(), sums[i][j], {upper.x, lower.x, upper.y, lower.y}, {b.x, b.y});
        mma(Type(), sums[i][j], {upper.z, lower.z, upper.w, lower.w}, {b.z, b.w});
      }
  }

  __device__ static void run(const GemmCall& call) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const GemmPlace<kRows, kColumns, kSplit> place;
    const Partials partials{reinterpret_cast<float*>(shared), reinterpret_cast<float*>(shared + Partials::kStagingBytes),
                            place.rank};
    partials.begin();
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int k = (place.rank * kWarps + warp) * kTerms + lane % 4 * 8;
    const Type *a[2 * kDown], *b[kAcross];
#pragma unroll
    for (int i = 0; i < 2 * kDown; ++i)
      a[i] = static_cast<const Type*>(call.a) + ::min(place.row0 + 8 * i + lane / 4, call.m - 1) * call.lda + k;
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
      b[j] = static_cast<const Type*>(call.b) + ::min(place.column0 + 8 * j + lane / 4, call.n - 1) * call.ldb + k;

    float sums[kDown][kAcross][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; step += kAhead) {
      Fragments f[kAhead];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int at = (step + ahead) * kTerms * kWarps * kSplit;
#pragma unroll
        for (int i = 0; i < 2 * kDown; ++i) f[ahead].a[i] = load(a[i] + at);
#pragma unroll
        for (int j = 0; j < kAcross; ++j) f[ahead].b[j] = load(b[j] + at);
      }
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) multiply(f[ahead], sums);
    }
    finish_sums(sums, partials, GemmOutput<Type>(call), warp, 0, 0, place.row0, place.column0);
  }
};

}  // namespace lathe
