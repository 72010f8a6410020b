#pragma once

#include "lathe/cuda/gemm_block.cuh"
#include "lathe/cuda/gemm_output.cuh"

namespace lathe {

/// What a kernel may rely on.
enum class GemmEdges {
  kWhole,    ///< tiles divide M, N and K, and what kVectors says
  kVectors,  ///< operands and their rows are aligned to 16 bytes
  kAny       ///< nothing: an operand is loaded in pieces of 16, 8 or 4 bytes, or by element, as it is aligned
};

/// One operand's part of a step in shared memory: kOuter x kInner elements of two bytes, contiguous
/// along the inner axis here and in memory. The pitch spreads eight rows of 16 bytes over all
/// banks.
template <class Type, int kOuter, int kInner, int kThreads>
struct HalfSlab {
  enum { kPitch = kInner + 8, kElements = kOuter * kPitch, kAcross = kInner / 8, kVectors = kOuter * kAcross };
  static_assert(kInner % 16 == 0);

  /// Starts copies from `from`. What lies outside outer_left rows of inner_left elements becomes
  /// zero.
  template <GemmEdges kEdges>
  __device__ static void copy(Type* to, const Type* from, int64_t lead, int outer_left, int inner_left,
                              [[maybe_unused]] int width) {
#pragma unroll
    for (int first = 0; first < kVectors; first += kThreads) {
      const int vector = first + static_cast<int>(threadIdx.x);
      if (kVectors % kThreads != 0 && vector >= kVectors) break;
      const int outer = vector / kAcross, inner = vector % kAcross * 8;
      Type* const target = to + outer * kPitch + inner;
      const Type* const source = from + outer * lead + inner;
      if constexpr (kEdges == GemmEdges::kWhole) {
        copy_part_16(target, source, 16);
      } else {
        const int elements = outer < outer_left ? ::max(0, ::min(8, inner_left - inner)) : 0;
        if (kEdges == GemmEdges::kVectors || width == 16)
          copy_part_16(target, elements > 0 ? source : from, 2 * elements);
        else if (width == 8)
          copy_pieces<8>(target, source, from, elements);
        else if (width == 4)
          copy_pieces<4>(target, source, from, elements);
        else
          copy_elements(target, source, elements);
      }
    }
  }
  template <int kWidth>
  __device__ static void copy_pieces(Type* to, const Type* from, const Type* somewhere, int elements) {
    enum { kElementsOfPiece = kWidth / 2 };
#pragma unroll
    for (int first = 0; first < 8; first += kElementsOfPiece) {
      const int count = ::max(0, ::min(int{kElementsOfPiece}, elements - first));
      copy_part<kWidth>(to + first, count > 0 ? from + first : somewhere, 2 * count);
    }
  }
  __device__ static void copy_elements(Type* to, const Type* from, int elements) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = 2 * i < elements ? from[2 * i].bits : 0;
      const uint32_t high = 2 * i + 1 < elements ? from[2 * i + 1].bits : 0;
      pairs[i] = low | high << 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
};

/// A product by mma.sync from shared memory, which asynchronous copies fill kStages - 1 steps
/// ahead. A block computes a tile of kRows x kColumns, by kDown x kAcross warps, kSlices times
/// over: each slice takes its share of every step of kDepth terms. The kSplit blocks of a cluster
/// share K. kAlongA, kAlongB: the operand is contiguous along K. kSteps: the number of a block's
/// steps, which makes one straight piece of code of them; 0 for any.
template <class Type, bool kAlongA, bool kAlongB, int kRows, int kColumns, int kDepth, int kStages, int kDown,
          int kAcross, int kSlices, int kSplit, int kSteps, GemmEdges kEdges>
struct MmaGemm {
  enum {
    kThreads = 32 * kDown * kAcross * kSlices,
    kWarpRows = kRows / kDown,
    kWarpColumns = kColumns / kAcross,
    kShare = kDepth / kSlices,
    kTilesDown = kWarpRows / 16,
    kTilesAcross = kWarpColumns / 8
  };
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 16 == 0 && kShare % 16 == 0 && kStages >= 2);
  using SlabA = HalfSlab<Type, kAlongA ? kRows : kDepth, kAlongA ? kDepth : kRows, kThreads>;
  using SlabB = HalfSlab<Type, kAlongB ? kColumns : kDepth, kAlongB ? kDepth : kColumns, kThreads>;
  using Partials = GemmPartials<kRows, kColumns, kSlices, kSplit, kThreads>;
  using Block = GemmBlock<kRows, kColumns, kDepth, kWarpRows, kWarpColumns, kSlices, kSplit>;
  using Warp = typename Block::Warp;
  enum {
    kStage = int{SlabA::kElements} + int{SlabB::kElements},
    kRing = 2 * kStages * kStage,
    kRingBytes = kRing > Partials::kStagingBytes ? kRing : Partials::kStagingBytes  ///< both, one after the other
  };

  const GemmCall& call;
  int row0, column0;
  int width_a, width_b;  ///< of the pieces that an operand is copied in, in bytes

  /// The largest power of two, up to 16, that divides the addresses of all rows.
  __device__ static int width_of(const void* base, int64_t lead) {
    const uint32_t address = static_cast<uint32_t>(reinterpret_cast<uint64_t>(base)) | static_cast<uint32_t>(2 * lead) | 16;
    return static_cast<int>(address & -address);
  }

  __device__ void fetch(Type* stage, int k0) const {
    const auto* const a = static_cast<const Type*>(call.a);
    const auto* const b = static_cast<const Type*>(call.b);
    const int depth = call.k - k0, rows = call.m - row0, columns = call.n - column0;
    SlabA::template copy<kEdges>(stage, kAlongA ? a + row0 * call.lda + k0 : a + k0 * call.lda + row0, call.lda,
                                 kAlongA ? rows : depth, kAlongA ? depth : rows, width_a);
    SlabB::template copy<kEdges>(stage + SlabA::kElements,
                                 kAlongB ? b + column0 * call.ldb + k0 : b + k0 * call.ldb + column0, call.ldb,
                                 kAlongB ? columns : depth, kAlongB ? depth : columns, width_b);
  }

  struct Fragments {
    uint32_t a[kTilesDown][4], b[kTilesAcross][2];
  };
  __device__ static void load(Fragments& f, const Type* stage, const Warp& own, int at) {
    const int depth = own.slice * kShare + at, low = own.lane % 8, third = own.lane / 8 % 2, fourth = own.lane / 16;
#pragma unroll
    for (int i = 0; i < kTilesDown; ++i) {
      const int row = own.row + 16 * i;
      if constexpr (kAlongA)
        load_matrices(f.a[i], shared_address(stage + (row + own.lane % 16) * SlabA::kPitch + depth + fourth * 8));
      else
        load_matrices_transposed(
            f.a[i], shared_address(stage + (depth + fourth * 8 + low) * SlabA::kPitch + row + third * 8));
    }
    const Type* const slab = stage + SlabA::kElements;
#pragma unroll
    for (int j = 0; j < kTilesAcross; j += 2) {
      const int column = own.column + 8 * j;
      uint32_t both[4];
      if constexpr (kAlongB)
        load_matrices(both, shared_address(slab + (column + fourth * 8 + low) * SlabB::kPitch + depth + third * 8));
      else
        load_matrices_transposed(
            both, shared_address(slab + (depth + third * 8 + low) * SlabB::kPitch + column + fourth * 8));
      f.b[j][0] = both[0], f.b[j][1] = both[1], f.b[j + 1][0] = both[2], f.b[j + 1][1] = both[3];
    }
  }

  using Sums = float[kTilesDown][kTilesAcross][4];
  __device__ static void multiply(const Type* stage, const Warp& own, Sums& sums) {
    Fragments f[2];
    load(f[0], stage, own, 0);
#pragma unroll
    for (int at = 0; at < kShare; at += 16) {
      if (at + 16 < kShare) load(f[(at / 16 + 1) % 2], stage, own, at + 16);
      const Fragments& now = f[at / 16 % 2];
#pragma unroll
      for (int i = 0; i < kTilesDown; ++i)
#pragma unroll
        for (int j = 0; j < kTilesAcross; ++j) mma(Type(), sums[i][j], now.a[i], now.b[j]);
    }
  }

  /// Adds the products of `steps` steps from number `first` on.
  __device__ void accumulate(Type* ring, int first, int steps, const Warp& own, Sums& sums) const {
    const auto ahead = [&](int step) {
      if (step < steps) fetch(ring + step % kStages * kStage, (first + step) * kDepth);
      end_group();
    };
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) ahead(step);
#pragma unroll(kSteps > 0 ? kSteps : 1)
    for (int step = 0; step < steps; ++step) {
      await_groups<kStages - 2>();
      __syncthreads();
      ahead(step + kStages - 1);
      multiply(ring + step % kStages * kStage, own, sums);
    }
    await_groups<0>();
  }

  __device__ static void run(const GemmCall& call) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const GemmPlace<kRows, kColumns, kSplit> place;
    const Partials partials{reinterpret_cast<float*>(memory), reinterpret_cast<float*>(memory + kRingBytes), place.rank};
    partials.begin();
    const MmaGemm product{call, place.row0, place.column0, width_of(call.a, call.lda), width_of(call.b, call.ldb)};
    const Warp own = Block::warp();
    Sums sums = {};
    if constexpr (kSteps > 0) {
      product.accumulate(reinterpret_cast<Type*>(memory), place.rank * kSteps, kSteps, own, sums);
    } else {
      const int all = (call.k + kDepth - 1) / kDepth, each = (all + kSplit - 1) / kSplit;
      const int first = ::min(place.rank * each, all);
      product.accumulate(reinterpret_cast<Type*>(memory), first, ::min(each, all - first), own, sums);
    }
    if constexpr (Partials::kNeeded) __syncthreads();
    finish_sums(sums, partials, GemmOutput<Type>(call), own.slice, own.row, own.column, place.row0, place.column0);
  }
};

}  // namespace lathe
