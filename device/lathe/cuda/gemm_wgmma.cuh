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
/// extent is a block's part of the tile for operands along K, 64 for others. C has boxes of 64 x 64.
struct GemmMaps {
  TensorMap a, b, c;
};

/// A product by wgmma from shared memory. One warp loads by TMA, kConsumers warpgroups multiply, each
/// 64 rows of the block's tile by kColumns; a ring of kStages steps of 64 terms connects them.
///
/// A cluster has kShareB blocks one above the other, which load a part of B each for all of them, times
/// kShareA side by side, which do the same for A, times kSplit that share K and add their sums in a
/// fixed order.
/// kPersistent: blocks take tile after tile, and load the next while they store one. kBand: tiles are
/// taken in bands of this many rows of clusters, so that concurrent ones share operands in the L2.
/// kBlocks: so many blocks fit a multiprocessor; the kernel's launch bounds must say the same.
/// kPlainStore: results go from registers to memory, for tiles whose latency counts; others by TMA.
template <class Type, Major kMajorA, Major kMajorB, int kConsumers, int kColumns, int kStages, int kShareA,
          int kShareB, int kSplit, bool kPersistent, int kBand, int kBlocks, bool kPlainStore>
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
    kPartA = kBytesA / kShareA,
    kPartB = kBytesB / kShareB,
    kGroup = kShareA * kShareB,  ///< blocks that load for each other
    kResult = kSplit > 1 || kPlainStore ? 0 : 2 * kConsumers * kChunk
  };
  static_assert(kConsumers == 1 || (kConsumers == 2 && kBlocks == 1));
  static_assert(kColumns % 64 == 0 || (kColumns == 32 && kMajorB == kAlongK && (kPlainStore || kSplit > 1)));
  static_assert(kSplit == 1 || !kPersistent);
  static_assert(kMajorB == kAlongK ? kColumns / kShareB % 8 == 0 : kColumns / 64 % kShareB == 0);
  static_assert(kMajorA == kAlongK || kConsumers % kShareA == 0);
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

  /// This block's place in its cluster.
  struct Own {
    int row, column, split;

    __device__ Own() {
      const int rank = static_cast<int>(blockIdx.x) % (kGroup * kSplit);
      row = rank % kShareB, column = rank / kShareB % kShareA, split = rank / kGroup;
    }
    __device__ int first_of_group() const { return split * kGroup; }
    /// Those that read this block's part of A: all of its row; of B: all of its column.
    __device__ uint16_t readers_of_a() const {
      uint32_t row_of_blocks = 0;
#pragma unroll
      for (int i = 0; i < kShareA; ++i) row_of_blocks |= 1u << i * kShareB;
      return static_cast<uint16_t>(row_of_blocks << (first_of_group() + row));
    }
    __device__ uint16_t readers_of_b() const {
      return static_cast<uint16_t>(((1u << kShareB) - 1) << (first_of_group() + column * kShareB));
    }
  };

  /// The tiles of this block, in units of clusters.
  struct Tiles {
    int down, across, next, step;
    Own own;

    __device__ explicit Tiles(const GemmCall& call)
        : down((call.m + kRows * kShareB - 1) / (kRows * kShareB)),
          across((call.n + kColumns * kShareA - 1) / (kColumns * kShareA)),
          next(static_cast<int>(blockIdx.x) / (kGroup * kSplit)),
          step(kPersistent ? static_cast<int>(gridDim.x) / kGroup : down * across) {}
    __device__ bool take(int& row, int& column) {
      if (next >= down * across) return false;
      const int band = next / (kBand * across), inside = next % (kBand * across);
      const int height = ::min(kBand, down - band * kBand);
      row = ((band * kBand + inside % height) * kShareB + own.row) * kRows;
      column = (inside / height * kShareA + own.column) * kColumns;
      next += step;
      return true;
    }
  };

  /// The steps of K of this block.
  struct Steps {
    int first, count;

    __device__ Steps(const GemmCall& call, const Own& own) {
      const int all = (call.k + kDepth - 1) / kDepth, each = (all + kSplit - 1) / kSplit;
      first = kSplit > 1 ? ::min(own.split * each, all) : 0;
      count = ::min(each, all - first);
    }
  };

  Shared& shared;
  const GemmCall& call;
  const GemmMaps& maps;

  template <bool kShared>
  __device__ static void load(void* to, const TensorMap& map, int x, int y, Barrier& full, uint16_t readers) {
    if constexpr (kShared)
      tma_multicast(to, map, x, y, full, readers);
    else
      tma_load(to, map, x, y, full);
  }
  /// This block's part of an operand's tile, from `start` along M or N.
  template <Major kMajor, int kPart, bool kShared>
  __device__ static void load_part(unsigned char* to, const TensorMap& map, int part, int start, int k, Barrier& full,
                                   uint16_t readers) {
    to += part * kPart;
    start += part * (kPart / 128);
    if constexpr (kMajor == kAlongK) {
      load<kShared>(to, map, k, start, full, readers);
    } else {
#pragma unroll
      for (int chunk = 0; chunk < kPart / kChunk; ++chunk)
        load<kShared>(to + chunk * kChunk, map, start + 64 * chunk, k, full, readers);
    }
  }

  /// By one thread.
  __device__ void load_tiles() const {
    const Own own;
    const uint16_t to_row = own.readers_of_a(), to_column = own.readers_of_b();
    const Steps steps(call, own);
    Place at;
    int row, column;
    for (Tiles tiles(call); tiles.take(row, column);) {
      for (int step = 0; step < steps.count; ++step) {
        const int k = (steps.first + step) * kDepth;
        unsigned char* const stage = shared.stages[at.stage];
        Barrier& full = shared.full[at.stage];
        wait(shared.empty[at.stage], at.parity ^ 1);
        arrive_expecting(full, kStage);
        load_part<kMajorA, kPartA, (kShareA > 1)>(stage, maps.a, tiles.own.column, row, k, full, to_row);
        load_part<kMajorB, kPartB, (kShareB > 1)>(stage + kBytesA, maps.b, tiles.own.row, column, k, full, to_column);
        at.advance();
      }
    }
  }

  __device__ void release(Place& behind) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    if constexpr (kGroup > 1) {
      if (thread < kGroup) arrive_remote(shared.empty[behind.stage], Own().first_of_group() + thread);
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
    const Own own;
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    if (threadIdx.x == 128 * kConsumers) {
      prefetch(maps.a);
      prefetch(maps.b);
    }
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        init(shared.full[i], 1);
        init(shared.empty[i], kConsumers * kGroup);
      }
      fence_barriers();
    }
    const Partials partials{reinterpret_cast<float*>(shared.stages), shared.received, own.split,
                            own.column * kShareB + own.row, kGroup};
    partials.begin();
    if constexpr (kGroup > 1 && kSplit == 1)
      cluster_sync();
    else
      __syncthreads();
    if constexpr (kGroup > 1 && kSplit > 1) cluster_wait();  // every block's barriers are there
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
          multiply(sums, warpgroup, Steps(call, own).count, at, behind);
          store(sums, warpgroup, row + 64 * warpgroup, column);
        }
        if (threadIdx.x % 128 == 0) wait_stores<0>();
      }
      if constexpr (kGroup > 1) {
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
        multiply(sums, warpgroup, Steps(call, own).count, at, behind);
        sync_threads<1, 128 * kConsumers>();
        send(sums, partials, warpgroup);
      }
      partials.template finish<(kGroup > 1)>(GemmOutput<Type>(call), row, column);
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
