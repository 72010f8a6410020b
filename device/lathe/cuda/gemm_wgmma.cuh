#pragma once

#include "lathe/cuda/gemm_output.cuh"
#include "lathe/cuda/tma.cuh"
#include "lathe/cuda/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace lathe {

template <class Type>
struct WgmmaOperand;
template <>
struct WgmmaOperand<half> {
  using Kind = Fp16;
};
template <>
struct WgmmaOperand<bfloat16> {
  using Kind = Bf16;
};

/// Maps of the operands in boxes of 64 along the contiguous axis with 128-byte swizzle; the other
/// extent is the tile's share for operands along K, 64 for others. C has boxes of 64 x 64.
struct GemmMaps {
  TensorMap a, b, c;
};

/// A product by wgmma from shared memory. One warp loads by TMA, kConsumers warpgroups multiply, each
/// 64 rows of the block's tile by kColumns; a ring of kStages steps of 64 terms connects them.
///
/// kShare: so many blocks of a cluster, one above the other, load a part of B each for all of them.
/// kSplit: the blocks of a cluster share K instead, and add their sums in a fixed order.
/// kPersistent: blocks take tile after tile, and load the next while they store one. kBand: tiles are
/// taken in bands of this many rows of clusters, so that concurrent ones share operands in the L2.
/// kBlocks: so many blocks fit a multiprocessor; the kernel's launch bounds must say the same.
/// kPlainStore: results go from registers to memory, for tiles whose latency counts; others by TMA.
template <class Type, Major kMajorA, Major kMajorB, int kConsumers, int kColumns, int kStages, int kShare, int kSplit,
          bool kPersistent, int kBand, int kBlocks, bool kPlainStore>
struct WgmmaGemm {
  enum {
    kRows = 64 * kConsumers,
    kDepth = 64,
    kMovesRegisters = kConsumers > 1,  ///< from the loader, which is then a warpgroup, to the others
    kThreads = 128 * kConsumers + (kMovesRegisters ? 128 : 32),
    kChunk = 64 * 128,  ///< bytes of 64 rows
    kBytesA = kRows * 128,
    kBytesB = kColumns * 128,
    kStage = kBytesA + kBytesB,
    kShareB = kBytesB / kShare,
    kResult = kSplit > 1 || kPlainStore ? 0 : 2 * kConsumers * kChunk
  };
  static_assert(kConsumers == 1 || (kConsumers == 2 && kBlocks == 1));
  static_assert(kColumns % 64 == 0 || (kColumns == 32 && kMajorB == kAlongK && (kPlainStore || kSplit > 1)));
  static_assert((kShare == 1 || kSplit == 1) && (kSplit == 1 || !kPersistent));
  static_assert(kMajorB == kAlongK ? kColumns / kShare % 8 == 0 : kColumns / 64 % kShare == 0);
  using Multiply = Wgmma<typename WgmmaOperand<Type>::Kind, kColumns, kMajorA, kMajorB>;
  using Partials = GemmPartials<kRows, kColumns, 1, kSplit, kThreads>;
  using Sums = float[kColumns / 2];
  static_assert(int{Partials::kStagingBytes} <= kStages * kStage, "the ring becomes the staging of partial sums");

  struct Shared {
    unsigned char stages[kStages][kStage];
    unsigned char result[kResult > 0 ? kResult : 16];
    float received[Partials::kReceivedBytes > 0 ? Partials::kReceivedBytes / 4 : 4];
    Barrier full[kStages], empty[kStages];
  };

  /// A stage of the ring and its parity.
  struct Place {
    int stage = 0;
    uint32_t parity = 0;

    __device__ void advance() {
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  };

  /// The tiles of this block, in units of clusters.
  struct Tiles {
    int down, across, next, step, rank;

    __device__ explicit Tiles(const GemmCall& call)
        : down((call.m + kRows * kShare - 1) / (kRows * kShare)),
          across((call.n + kColumns - 1) / kColumns),
          next(static_cast<int>(blockIdx.x) / (kShare * kSplit)),
          step(kPersistent ? static_cast<int>(gridDim.x) / kShare : down * across),
          rank(static_cast<int>(blockIdx.x) % (kShare * kSplit)) {}
    __device__ bool take(int& row, int& column) {
      if (next >= down * across) return false;
      const int band = next / (kBand * across), inside = next % (kBand * across);
      const int height = ::min(kBand, down - band * kBand);
      row = ((band * kBand + inside % height) * kShare + (kShare > 1 ? rank : 0)) * kRows;
      column = inside / height * kColumns;
      next += step;
      return true;
    }
  };

  /// The steps of K of this block.
  struct Steps {
    int first, count;

    __device__ Steps(const GemmCall& call, int rank) {
      const int all = (call.k + kDepth - 1) / kDepth, each = (all + kSplit - 1) / kSplit;
      first = kSplit > 1 ? ::min(rank * each, all) : 0;
      count = ::min(each, all - first);
    }
  };

  Shared& shared;
  const GemmCall& call;
  const GemmMaps& maps;

  __device__ void load_part_of_b(unsigned char* to, int column, int k, Barrier& full, int rank) const {
    constexpr uint16_t kAll = (1 << kShare) - 1;
    const auto load = [&](void* at, int x, int y) {
      if constexpr (kShare > 1)
        tma_multicast(at, maps.b, x, y, full, kAll);
      else
        tma_load(at, maps.b, x, y, full);
    };
    const int part = kShare > 1 ? rank : 0;
    to += part * kShareB;
    column += part * (kColumns / kShare);
    if constexpr (kMajorB == kAlongK) {
      load(to, k, column);
    } else {
#pragma unroll
      for (int chunk = 0; chunk < kColumns / 64 / kShare; ++chunk) load(to + chunk * kChunk, column + 64 * chunk, k);
    }
  }

  /// By one thread.
  __device__ void load_tiles() const {
    Place at;
    int row, column;
    for (Tiles tiles(call); tiles.take(row, column);) {
      const Steps steps(call, tiles.rank);
      for (int step = 0; step < steps.count; ++step) {
        const int k = (steps.first + step) * kDepth;
        unsigned char* const stage = shared.stages[at.stage];
        Barrier& full = shared.full[at.stage];
        wait(shared.empty[at.stage], at.parity ^ 1);
        arrive_expecting(full, kStage);
        if constexpr (kMajorA == kAlongK) {
          tma_load(stage, maps.a, k, row, full);
        } else {
#pragma unroll
          for (int chunk = 0; chunk < kConsumers; ++chunk)
            tma_load(stage + chunk * kChunk, maps.a, row + 64 * chunk, k, full);
        }
        load_part_of_b(stage + kBytesA, column, k, full, tiles.rank);
        at.advance();
      }
    }
  }

  __device__ void release(Place& behind) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    if constexpr (kShare > 1) {
      if (thread < kShare) arrive_remote(shared.empty[behind.stage], thread);
    } else {
      if (thread == 0) arrive(shared.empty[behind.stage]);
    }
    behind.advance();
  }

  /// Adds the products of all steps, the last still under way while the next are issued.
  __device__ void multiply(Sums& sums, int consumer, int steps, Place& at, Place& behind) const {
    if constexpr (kSplit > 1) {
      if (steps == 0) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sums[i] = 0;
        return;
      }
    }
    for (int step = 0; step < steps; ++step) {
      wait(shared.full[at.stage], at.parity);
      const unsigned char* const stage = shared.stages[at.stage];
      const uint64_t a = swizzled_tile(stage + consumer * kChunk);
      const uint64_t b = swizzled_tile(stage + kBytesA, kChunk);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < kDepth / 16; ++i)
        Multiply::run(sums, advance(a, kMajorA == kAlongK ? 32 * i : 2048 * i),
                      advance(b, kMajorB == kAlongK ? 32 * i : 2048 * i), step + i > 0);
      wgmma_commit();
      at.advance();
      if (step == 0) continue;
      wgmma_wait<1>();
      release(behind);
    }
    wgmma_wait<0>(sums);
    release(behind);
  }

  template <int kConsumer>
  __device__ static void sync_consumer() {
    sync_threads<1 + kConsumer, 128>();
  }
  __device__ static void sync_own(int consumer) {
    if (consumer == 0)
      sync_consumer<0>();
    else
      sync_consumer<1>();
  }

  /// Stores 64 rows of sums; by TMA through two alternating buffers of 64 x 64.
  __device__ void store(Sums& sums, int consumer, int row, int column) const {
    const GemmOutput<Type> output(call);
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32, warp = thread / 32;
    if constexpr (kPlainStore) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2)
        output.put(row + 16 * warp + lane / 4 + i / 2 % 2 * 8, column + i / 4 * 8 + lane % 4 * 2,
                   {sums[i], sums[i + 1]});
      return;
    }
    if (!output.is_plain()) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        const int y = row + 16 * warp + lane / 4 + i / 2 % 2 * 8, x = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (y < call.m && x < call.n) sums[i] = output.value(y, x, sums[i]);
      }
    }
    const uint32_t y = lane % 16, right = lane / 16;  // of the 8 x 8 matrix whose row this thread addresses
#pragma unroll
    for (int chunk = 0; chunk < kColumns / 64; ++chunk) {
      unsigned char* const buffer = shared.result + (2 * consumer + chunk % 2) * kChunk;
      if (thread == 0) wait_stores_read<1>();
      sync_own(consumer);
      const uint32_t line = shared_address(buffer) + (16 * warp + y) * 128;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const float* const d = sums + 32 * chunk + 8 * pair;
        const uint32_t values[4] = {pack(Type(), d[0], d[1]), pack(Type(), d[2], d[3]), pack(Type(), d[4], d[5]),
                                    pack(Type(), d[6], d[7])};
        store_matrices(line + ((2 * pair + right) ^ (y % 8)) * 16, values);
      }
      fence_async_copies();
      sync_own(consumer);
      if (thread == 0) {
        tma_store(maps.c, column + 64 * chunk, row, buffer);
        commit_stores();
      }
    }
  }

  __device__ void send(const Sums& sums, const Partials& partials, int consumer) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const int row = 64 * consumer + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 2)
      partials.put(0, row + i / 2 % 2 * 8, column + i / 4 * 8, sums[i], sums[i + 1]);
  }

  __device__ static void give_registers() {
    if constexpr (kMovesRegisters) fewer_registers<40>();
  }
  __device__ static void take_registers() {
    if constexpr (kMovesRegisters) more_registers<232>();
  }

  __device__ void run() const {
    constexpr bool kCluster = kShare * kSplit > 1;
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    if (threadIdx.x == 128 * kConsumers) {
      prefetch(maps.a);
      prefetch(maps.b);
    }
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        init(shared.full[i], 1);
        init(shared.empty[i], kConsumers * kShare);
      }
      fence_barriers();
    }
    const Partials partials{reinterpret_cast<float*>(shared.stages), shared.received,
                            static_cast<int>(blockIdx.x) % kSplit};
    partials.begin();
    if constexpr (kShare > 1)
      cluster_sync();
    else
      __syncthreads();
    if constexpr (kSplit == 1) {
      if (warpgroup == kConsumers) {
        give_registers();
        if (threadIdx.x == 128 * kConsumers) load_tiles();
      } else {
        take_registers();
        Place at, behind;
        int row, column;
        for (Tiles tiles(call); tiles.take(row, column);) {
          Sums sums;
          multiply(sums, warpgroup, Steps(call, 0).count, at, behind);
          store(sums, warpgroup, row + 64 * warpgroup, column);
        }
        if (threadIdx.x % 128 == 0) wait_stores<0>();
      }
      if constexpr (kCluster) {
        __syncwarp();
        cluster_sync();
      }
    } else {
      Tiles tiles(call);
      int row, column;
      tiles.take(row, column);
      if (warpgroup == kConsumers) {
        give_registers();
        if (threadIdx.x == 128 * kConsumers) load_tiles();
        __syncwarp();
      } else {
        take_registers();
        Place at, behind;
        Sums sums;
        multiply(sums, warpgroup, Steps(call, tiles.rank).count, at, behind);
        sync_threads<1, 128 * kConsumers>();
        send(sums, partials, warpgroup);
      }
      partials.finish(GemmOutput<Type>(call), row, column);
    }
  }

  /// Requires sizeof(Shared) bytes of dynamic shared memory.
  __device__ static void run(const GemmCall& call, const GemmMaps& maps) {
    extern __shared__ __align__(1024) unsigned char memory[];
    WgmmaGemm{*reinterpret_cast<Shared*>(memory), call, maps}.run();
  }
};

}  // namespace lathe

#endif
