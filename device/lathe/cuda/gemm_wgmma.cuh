#pragma once

#include "lathe/cuda/gemm_gather.cuh"
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
/// extent is a block's part of the tile for operands along K, 64 for others. C has boxes of 64 x
/// 64, or of 64 rows of 32 with 64-byte swizzle where 64 does not divide the tile's columns.
struct GemmMaps {
  TensorMap a, b, c;
};

struct WgmmaKnobs {
  int consumers = 1;  ///< warpgroups that multiply
  int tall = 1;       ///< a warpgroup's rows of the tile, in 64s
  int columns = 128;
  int stages = 4;
  int share_a = 1, share_b = 1;
  int split = 1;
  int chains = 1;  ///< 2: every other product adds to sums of its own, so that it need not wait for the last one's
  int band = 8;
  int blocks = 1;
  bool persistent = false, in_turn = false, gathers = false, plain_store = false;
};

/// A product by wgmma from shared memory. One warp loads by TMA, `consumers` warpgroups multiply,
/// each 64 tall rows of the block's tile by `columns`; a ring of `stages` steps of 64 terms
/// connects them.
///
/// A cluster has share_b blocks one above the other, which load a part of B each for all of them,
/// times share_a side by side, which do the same for A, times `split` that share K and add their
/// sums in a fixed order. gathers: those that share K are no cluster, and add through GemmGather.
/// persistent: blocks take tile after tile, and load the next while they store one. in_turn: two
/// warpgroups take whole tiles alternately, so that one multiplies while the other stores. band:
/// tiles are taken in bands of this many rows of clusters, so that concurrent ones share operands
/// in the L2. blocks: so many fit a multiprocessor; the kernel's launch bounds must say the same.
/// plain_store: results go from registers to memory, for tiles whose latency counts; others by TMA.
template <class Type, Major kMajorA, Major kMajorB, WgmmaKnobs knobs>
struct WgmmaGemm {
  enum {
    kConsumers = knobs.consumers,
    kTall = knobs.tall,
    kColumns = knobs.columns,
    kStages = knobs.stages,
    kShareA = knobs.share_a,
    kShareB = knobs.share_b,
    kSplit = knobs.split,
    kInTurn = knobs.in_turn,
    kGathers = knobs.gathers,
    kOwnRows = 64 * kTall,  ///< of a warpgroup
    kRows = kOwnRows * (kInTurn ? 1 : kConsumers),
    kDepth = 64,
    kMovesRegisters = kConsumers > 1,  ///< from the loader, which is then a warpgroup, to the others
    kWorkers = 128 * kConsumers,
    kThreads = kWorkers + (kMovesRegisters ? 128 : 32),
    kChunk = 64 * 128,  ///< bytes of 64 rows
    kBytesA = kRows * 128,
    kBytesB = kColumns * 128,
    kStage = kBytesA + kBytesB,
    kPartA = kBytesA / kShareA,
    kPartB = kBytesB / kShareB,
    kGroup = kShareA * kShareB,  ///< blocks that load for each other
    kClusterSplit = kGathers ? 1 : kSplit,
    kChains = knobs.chains,
    kStored = kColumns % 64 == 0 ? 64 : 32,  ///< columns of a store by TMA
    kStores = kColumns / kStored,            ///< of 64 rows
    kStoredBytes = 64 * kStored * 2,
    kResult = kSplit > 1 || knobs.plain_store ? 0 : 2 * kConsumers * kStoredBytes
  };
  static_assert(kConsumers == 1 || (kConsumers == 2 && knobs.blocks == 1));
  static_assert(kColumns % 64 == 0 || (kColumns % 32 == 0 && kMajorB == kAlongK));
  static_assert(kSplit == 1 || !knobs.persistent);
  static_assert(!kInTurn || (kConsumers == 2 && knobs.persistent));
  static_assert(!kGathers || kSplit > 1);
  static_assert(kChains == 1 || (kChains == 2 && kTall == 1));
  static_assert(kMajorB == kAlongK ? kColumns / kShareB % 8 == 0 : kColumns / 64 % kShareB == 0);
  static_assert(kMajorA == kAlongK || kRows / 64 % kShareA == 0);
  using Multiply = Wgmma<typename WgmmaOperand<Type>::Kind, kColumns, kMajorA, kMajorB>;
  using Partials = GemmPartials<kRows, kColumns, 1, kClusterSplit, kThreads>;
  using Gather = GemmGather<kSplit, kWorkers, kTall * kColumns / 8>;
  using Sums = float[kTall][kColumns / 2];
  static_assert(int{Partials::kStagingBytes} <= kStages * kStage, "the ring becomes the staging of partial sums");

  struct Shared {
    unsigned char stages[kStages][kStage];
    unsigned char result[kResult > 0 ? kResult : 16];
    float received[Partials::kReceivedBytes > 0 ? Partials::kReceivedBytes / 4 : 4];
    Barrier full[kStages], empty[kStages];
    Barrier turns[2];
    GatherNotes notes;
  };

  /// A stage of the ring and its parity.
  struct Place {
    int stage = 0;
    uint32_t parity = 0;
    int left = 0;  ///< steps after this whose loads need the stages that are released

    __device__ void advance() {
      if (++stage == kStages) stage = 0, parity ^= 1;
      --left;
    }
    __device__ void advance(int steps) {
      stage += steps;
      parity ^= stage / kStages & 1;
      stage %= kStages;
      left -= steps;
    }
  };

  /// This block's place in its cluster.
  struct Own {
    int row, column, split;

    __device__ Own() {
      const int rank = static_cast<int>(blockIdx.x % (kGroup * kSplit));
      row = rank % kShareB, column = rank / kShareB % kShareA, split = rank / kGroup;
    }
    __device__ int first_of_group() const { return kGathers ? 0 : split * kGroup; }
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
          next(static_cast<int>(blockIdx.x / (kGroup * kSplit))),
          step(knobs.persistent ? static_cast<int>(gridDim.x / kGroup) : down * across) {}
    __device__ int count() const {
      if constexpr (!knobs.persistent) return 1;
      return (down * across - next + step - 1) / step;
    }
    __device__ bool take(int& row, int& column) {
      if (next >= down * across) return false;
      const int band = next / (knobs.band * across), inside = next % (knobs.band * across);
      const int height = ::min(int{knobs.band}, down - band * knobs.band);
      row = ((band * knobs.band + inside % height) * kShareB + own.row) * kRows;
      column = (inside / height * kShareA + own.column) * kColumns;
      next += step;
      return true;
    }
  };

  /// The steps of K of this block, of which there is one at least.
  struct Steps {
    int first, count;

    __device__ Steps(const GemmCall& call, const Own& own) {
      const int all = (call.k + kDepth - 1) / kDepth;
      first = all * own.split / kSplit;
      count = all * (own.split + 1) / kSplit - first;
    }
  };

  Shared& shared;
  const GemmCall& call;
  const GemmMaps& maps;

  /// Whether this thread is the one that loads. By all threads of a warp.
  __device__ static bool is_loader() {
    return uniform(static_cast<int>(threadIdx.x / 32)) == 4 * kConsumers && elect();
  }
  /// The same number in all lanes of a warp, as the compiler then knows: addresses and descriptors
  /// that depend on nothing else are computed once a warp.
  __device__ static int uniform(int x) { return __shfl_sync(0xffffffff, x, 0); }

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

  /// For those that load into it. What nobody needs is not sent to other blocks, which may be gone.
  __device__ void release(Place& behind) const {
    const int thread = static_cast<int>(threadIdx.x % 128);
    if constexpr (kGroup > 1) {
      if (behind.left > 0 && thread < kGroup) arrive_remote(shared.empty[behind.stage], Own().first_of_group() + thread);
    } else {
      if (thread == 0) arrive(shared.empty[behind.stage]);
    }
    behind.advance();
  }

  template <int kCount>
  __device__ static void clear(float (&sums)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sums[i]));
  }
  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int t = 0; t < kTall; ++t) clear(sums[t]);
  }
  /// The sums of a step's product number `i`.
  template <int kOthers>
  __device__ static float (&chain(float (&sums)[kColumns / 2], float (&others)[kOthers], int i))[kColumns / 2] {
    if constexpr (kChains > 1) {
      if (i % 2 == 1) return others;
    }
    return sums;
  }

  /// Adds the products of all steps, the last still under way while the next are issued. in_turn:
  /// begins when the other has got all that it needs, as a barrier's parity tells only two phases
  /// apart; `turn` is the parity of that.
  __device__ void multiply(Sums& sums, int part, int steps, Place& at, Place& behind,
                           [[maybe_unused]] uint32_t turn = 0) const {
    // The compiler would serialise several products whose first steps define their sums.
    constexpr bool kZeroed = kTall * kChains > 1;
    if constexpr (kZeroed) clear(sums);
    float others[kChains > 1 ? kColumns / 2 : 1];
    if constexpr (kChains > 1) clear(others);
    if constexpr (kInTurn) wait(shared.turns[threadIdx.x / 128], turn);
    for (int step = 0; step < steps; ++step) {
      wait(shared.full[at.stage], at.parity);
      const unsigned char* const stage = shared.stages[at.stage];
      const uint64_t a = swizzled_tile(stage + part * (kTall * kChunk));
      const uint64_t b = swizzled_tile(stage + kBytesA, kChunk);
      wgmma_begin();
#pragma unroll
      for (int t = 0; t < kTall; ++t)
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i)
          Multiply::run(chain(sums[t], others, i), advance(a, t * kChunk + (kMajorA == kAlongK ? 32 * i : 2048 * i)),
                        advance(b, kMajorB == kAlongK ? 32 * i : 2048 * i), kZeroed || step + i > 0);
      wgmma_commit();
      at.advance();
      if (step == 0) continue;
      wgmma_wait<1>();
      release(behind);
    }
    if constexpr (kInTurn) {
      if (threadIdx.x % 128 == 0) arrive(shared.turns[1 - threadIdx.x / 128]);
    }
#pragma unroll
    for (int t = 0; t < kTall; ++t) wgmma_wait<0>(sums[t]);
    if constexpr (kChains > 1) {
      wgmma_wait<0>(others);
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[0][i] += others[i];
    }
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

  /// Stores 64 rows of sums; by TMA through two alternating buffers. before: how many times this
  /// consumer has been here.
  __device__ void store(float (&sums)[kColumns / 2], int consumer, int before, int row, int column) const {
    const GemmOutput<Type> output(call);
    const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32, warp = thread / 32;
    if constexpr (knobs.plain_store) {
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
    for (int chunk = 0; chunk < kStores; ++chunk) {
      const int turn = (kStores * before + chunk) % 2;
      unsigned char* const buffer = shared.result + (2 * consumer + turn) * kStoredBytes;
      if (thread == 0) wait_stores_read<1>();
      sync_own(consumer);
      const uint32_t line = shared_address(buffer) + (16 * warp + y) * (2 * kStored);
      const uint32_t swizzle = kStored == 64 ? y % 8 : y / 2 % 4;
#pragma unroll
      for (int pair = 0; pair < kStored / 16; ++pair) {
        const float* const d = sums + kStored / 2 * chunk + 8 * pair;
        const uint32_t values[4] = {pack(Type(), d[0], d[1]), pack(Type(), d[2], d[3]), pack(Type(), d[4], d[5]),
                                    pack(Type(), d[6], d[7])};
        store_matrices(line + ((2 * pair + right) ^ swizzle) * 16, values);
      }
      fence_async_copies();
      sync_own(consumer);
      if (thread == 0) {
        tma_store(maps.c, column + kStored * chunk, row, buffer);
        commit_stores();
      }
    }
  }

  /// Tile after tile of a consumer.
  __device__ void consume(int consumer) const {
    const int steps = Steps(call, Own()).count, part = kInTurn ? 0 : consumer;
    Place at, behind;
    int row, column, stored = 0;
    Tiles tiles(call);
    behind.left = tiles.count() * steps - kStages;
    if constexpr (kInTurn) {
      if (consumer == 1) skip(tiles, steps, at, behind);
    }
    for (uint32_t turn = consumer ^ 1; tiles.take(row, column); turn ^= 1) {
      Sums sums;
      multiply(sums, part, steps, at, behind, turn);
#pragma unroll
      for (int t = 0; t < kTall; ++t)
        store(sums[t], consumer, stored + t, row + kOwnRows * part + 64 * t, column);
      stored += kTall;
      if constexpr (kInTurn) skip(tiles, steps, at, behind);
    }
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
  }
  /// The other's tile.
  __device__ static void skip(Tiles& tiles, int steps, Place& at, Place& behind) {
    tiles.next += tiles.step;
    at.advance(steps);
    behind.advance(steps);
  }

  __device__ void send(const Sums& sums, const Partials& partials, int consumer) const {
    const int thread = static_cast<int>(threadIdx.x % 128);
    const int row = kOwnRows * consumer + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
    for (int t = 0; t < kTall; ++t)
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2)
        partials.put(0, row + 64 * t + i / 2 % 2 * 8, column + i / 4 * 8, sums[t][i], sums[t][i + 1]);
  }

  /// Sums of the tile's blocks, through memory.
  __device__ void gather(const Sums& sums, const Gather& sharers, int row, int column) const {
    const GemmOutput<Type> output(call);
    const auto get = [&](int vector) {
      const float* const four = sums[vector / (kColumns / 8)] + vector % (kColumns / 8) * 4;
      return make_float4(four[0], four[1], four[2], four[3]);
    };
    sharers.add(shared.notes, get, [&](int vector, int worker, const float (&sum)[4]) {
      const int lane = worker % 32, warp = worker / 32 % 4, part = vector / (kColumns / 8);
      const int y = row + kOwnRows * (worker / 128) + 64 * part + 16 * warp + lane / 4;
      const int x = column + vector % (kColumns / 8) * 8 + lane % 4 * 2;
      output.put(y, x, {sum[0], sum[1]});
      output.put(y + 8, x, {sum[2], sum[3]});
    });
  }

  /// The others wait until the barriers are there; the loader, which made them, goes on.
  __device__ static void meet_loader(int warpgroup) {
    if (warpgroup == kConsumers)
      arrive_threads<3, kThreads>();
    else
      sync_threads<3, kThreads>();
  }
  __device__ static void give_registers() {
    if constexpr (kMovesRegisters) fewer_registers<40>();
  }
  __device__ static void take_registers() {
    if constexpr (kMovesRegisters) more_registers<232>();
  }

  __device__ void run() const {
    const Own own;
    const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
    if (is_loader()) {
      prefetch(maps.a);
      prefetch(maps.b);
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        init(shared.full[i], 1);
        init(shared.empty[i], (kInTurn ? 1 : kConsumers) * kGroup);
      }
      if constexpr (kGathers) init(shared.notes.decided, 1);
      if constexpr (kInTurn) init(shared.turns[0], 1), init(shared.turns[1], 1);
      fence_barriers();
    }
    __syncwarp();
    const Partials partials{reinterpret_cast<float*>(shared.stages), shared.received, own.split,
                            own.column * kShareB + own.row, kGroup};
    partials.begin();
    // Loads for other blocks wait until all have their barriers; what they bring tells the
    // consumers.
    if constexpr (kGroup > 1 && kClusterSplit == 1) cluster_arrive();
    meet_loader(warpgroup);
    if constexpr (kGroup > 1) {
      if (kClusterSplit > 1 || warpgroup == kConsumers) cluster_wait();
    }
    if constexpr (kSplit == 1) {
      if (warpgroup == kConsumers) {
        give_registers();
        if (is_loader()) load_tiles();
      } else {
        take_registers();
        consume(warpgroup);
      }
    } else {
      Tiles tiles(call);
      const int tile = tiles.next * kGroup + own.column * kShareB + own.row;
      int row, column;
      tiles.take(row, column);
      Place at, behind;
      behind.left = Steps(call, own).count - kStages;
      if constexpr (kGathers) {
        const Gather sharers(call.workspace, tile, own.split);
        if (warpgroup == kConsumers) {
          give_registers();
          if (is_loader()) {
            const uint64_t before = sharers.start();
            load_tiles();
            sharers.decide(shared.notes, before);
          }
        } else {
          take_registers();
          Sums sums;
          multiply(sums, warpgroup, Steps(call, own).count, at, behind);
          gather(sums, sharers, row, column);
        }
      } else {
        if (warpgroup == kConsumers) {
          give_registers();
          if (is_loader()) load_tiles();
          __syncwarp();
        } else {
          take_registers();
          Sums sums;
          multiply(sums, warpgroup, Steps(call, own).count, at, behind);
          sync_threads<1, kWorkers>();
          send(sums, partials, warpgroup);
        }
        partials.template finish<(kGroup > 1)>(GemmOutput<Type>(call), row, column);
      }
    }
    if constexpr (kGroup > 1 && kClusterSplit == 1) {
      __syncwarp();
      if (warpgroup != kConsumers) cluster_wait();
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
