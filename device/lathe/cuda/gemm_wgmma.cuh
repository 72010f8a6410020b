#pragma once

#include "lathe/cuda/gemm_gather.cuh"
#include "lathe/cuda/tma.cuh"
#include "lathe/cuda/wgmma.cuh"

namespace lathe {

struct WgmmaKnobs {
  int consumers = 1;  ///< warpgroups that multiply
  int tall = 1;       ///< a warpgroup's rows of the tile, in 64s
  int columns = 128;
  int depth = 64;  ///< terms of a step: 64 or 128
  int stages = 4;
  int share_a = 1, share_b = 1;
  int split = 1;
  int chains = 1;  ///< 2: every other product adds to sums of its own, so that it need not wait for the last one's
  int band = 8;
  int blocks = 1;
  bool persistent = false, in_turn = false, gathers = false, plain_store = false, transposed = false,
       half_sums = false, row_store = false;
};

}  // namespace lathe

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace lathe {

template <class Type>
struct WgmmaOperand;
template <>
struct WgmmaOperand<half> {
  template <bool kHalfSums, int kN, Major kA, Major kB>
  struct Multiply : Wgmma<Fp16, kN, kA, kB> {
    using Sum = float;
  };
  template <int kN, Major kA, Major kB>
  struct Multiply<true, kN, kA, kB> : WgmmaFp16Sums<kN, kA, kB> {
    using Sum = uint32_t;
  };
};
template <>
struct WgmmaOperand<bfloat16> {
  template <bool kHalfSums, int kN, Major kA, Major kB>
  struct Multiply : Wgmma<Bf16, kN, kA, kB> {
    static_assert(!kHalfSums, "bf16 is added in fp32");
    using Sum = float;
  };
};

/// Maps of the operands in boxes of 64 along the contiguous axis with 128-byte swizzle; the other
/// extent is a block's part of the tile for operands along K, a step's depth for others. For steps
/// of 128 terms, operands along K have a third axis, of K in 64s, of which a box that no blocks
/// share has two. C has boxes of 64 x 64, or of 64 rows of 32 with 64-byte swizzle where 64 does
/// not divide the tile's columns (transposed: of 32 rows of 64).
struct GemmMaps {
  TensorMap a, b, c;
};

/// A product by wgmma from shared memory. One warp loads by TMA, `consumers` warpgroups multiply,
/// each 64 tall rows of the block's tile by `columns`; a ring of `stages` steps of `depth` terms
/// connects them.
///
/// A cluster has share_b blocks one above the other, which load a part of B each for all of them,
/// times share_a side by side, which do the same for A, times `split` that share K and add their
/// sums in a fixed order. gathers: those that share K are no cluster, and add through GemmGather.
/// persistent: blocks take tile after tile, and load the next while they store one. in_turn: two
/// warpgroups take whole tiles alternately, so that one multiplies while the other stores. band:
/// tiles are taken in bands of this many rows of clusters, so that concurrent ones share operands
/// in the L2; 0: the grid's x and y are a tile's row and column, which need no divisions. blocks:
/// so many fit a multiprocessor; the kernel's launch bounds must say the same. plain_store: results
/// go from registers to memory, for tiles whose latency counts; others by TMA. transposed: the
/// operands change places, and so do a tile's rows and columns: its rows lie along N. B's map is
/// then maps.a, and the majors are in that order too. half_sums: the tensor cores add in fp16; what
/// blocks add of each other is fp32 all the same. row_store: a warp hands out its results in rows,
/// neighbours to neighbouring lanes, for outputs that take single elements.
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
    kDepth = knobs.depth,
    kUnits = kDepth / 64,
    kMovesRegisters = kConsumers > 1,  ///< from the loader, which is then a warpgroup, to the others
    kWorkers = 128 * kConsumers,
    kThreads = kWorkers + (kMovesRegisters ? 128 : 32),
    kChunk = 64 * 128,           ///< bytes of 64 rows
    kWideChunk = kDepth * 128,   ///< of a step of 64 along M or N
    kBytesA = kRows * kDepth * 2,
    kBytesB = kColumns * kDepth * 2,
    kStage = kBytesA + kBytesB,
    kPartA = kBytesA / kShareA,
    kPartB = kBytesB / kShareB,
    kGroup = kShareA * kShareB,  ///< blocks that load for each other
    kClusterSplit = kGathers ? 1 : kSplit,
    kWarps = kWorkers / 32,
    kUnitsOfSums = kTall * kColumns / 8 * kWarps,  ///< of four sums of each lane of a warp
    kOwnUnits = kUnitsOfSums / kClusterSplit,      ///< that a block of the cluster adds up
    kChains = knobs.chains,
    kStored = kColumns % 64 == 0 ? 64 : 32,  ///< columns of a store by TMA
    kStores = kColumns / kStored,            ///< of 64 rows
    kStoredBytes = 64 * kStored * 2,
    kTransposed = knobs.transposed,
    kHalfSums = knobs.half_sums,
    kRowPitch = 68,  ///< of 64 columns of fp32, so that eight rows lie in different banks
    kResult = kSplit > 1 || knobs.plain_store ? 0
              : knobs.row_store               ? 4 * kWarps * 16 * kRowPitch
                                              : 2 * kConsumers * kStoredBytes
  };
  static_assert(kConsumers == 1 || (kConsumers == 2 && knobs.blocks == 1));
  static_assert(kColumns % 64 == 0 || (kColumns % 32 == 0 && kMajorB == kAlongK));
  static_assert(kSplit == 1 || !knobs.persistent);
  static_assert(!kInTurn || (kConsumers == 2 && knobs.persistent));
  static_assert(!kGathers || kSplit > 1);
  static_assert(kChains == 1 || (kChains == 2 && kTall == 1 && !kHalfSums));
  static_assert(kDepth == 64 || kDepth == 128);
  static_assert(!kTransposed || (!knobs.plain_store && !knobs.row_store));
  static_assert(!knobs.row_store || kColumns % 64 == 0);
  static_assert(kUnitsOfSums % kClusterSplit == 0);
  static_assert(!kTransposed || !kGathers || kRows * kColumns / 4 % (kSplit * 32) == 0, "whole warps gather");
  static_assert(knobs.band > 0 || !knobs.persistent);
  static_assert(kMajorB == kAlongK ? kColumns / kShareB % 8 == 0 : kColumns / 64 % kShareB == 0);
  static_assert(kMajorA == kAlongK || kRows / 64 % kShareA == 0);
  using Multiply = typename WgmmaOperand<Type>::template Multiply<kHalfSums, kColumns, kMajorA, kMajorB>;
  using Gather = GemmGather<kSplit, kWorkers, kTall * kColumns / 8>;
  using Sum = typename Multiply::Sum;  ///< a register: one sum of fp32, or two of fp16
  enum { kSums = kHalfSums ? kColumns / 4 : kColumns / 2 };
  using Sums = Sum[kTall][kSums];

  struct Shared {
    unsigned char stages[kStages][kStage];
    unsigned char result[kResult > 0 ? kResult : 16];
    float4 received[kClusterSplit > 1 ? kOwnUnits : 1][kClusterSplit][kClusterSplit > 1 ? 32 : 1];
    Barrier full[kStages], empty[kStages];
    Barrier turns[2], all_received;
    GatherNotes notes;
  };
  /// Where that lies; NVRTC has no offsetof.
  enum {
    kBarrier = sizeof(Barrier),
    kReceivedAt = kStages * kStage + sizeof(Shared::result),
    kFullAt = kReceivedAt + sizeof(Shared::received),
    kEmptyAt = kFullAt + kStages * kBarrier,
    kAllReceivedAt = kEmptyAt + (kStages + 2) * kBarrier
  };
  static_assert(sizeof(Shared) == (kAllReceivedAt + kBarrier + sizeof(GatherNotes) + 15) / 16 * 16);

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
        : down(((kTransposed ? call.n : call.m) + kRows * kShareB - 1) / (kRows * kShareB)),
          across(((kTransposed ? call.m : call.n) + kColumns * kShareA - 1) / (kColumns * kShareA)),
          next(static_cast<int>(blockIdx.x / (kGroup * kSplit))),
          step(knobs.persistent ? static_cast<int>(gridDim.x / kGroup) : down * across) {
      if constexpr (knobs.band == 0) next += down * static_cast<int>(blockIdx.y);
    }
    __device__ int count() const {
      if constexpr (!knobs.persistent) return 1;
      return (down * across - next + step - 1) / step;
    }
    __device__ bool take(int& row, int& column) {
      if (next >= down * across) return false;
      if constexpr (knobs.band == 0) {
        row = (static_cast<int>(blockIdx.x / (kGroup * kSplit)) * kShareB + own.row) * kRows;
        column = (static_cast<int>(blockIdx.y) * kShareA + own.column) * kColumns;
        next = down * across;
        return true;
      }
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
  const TensorMap& map_a;
  const TensorMap& map_b;
  const TensorMap& map_c;
  const uint32_t base;  ///< the address of `shared`, which the compiler would compute again in loops

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
  template <Major kMajor, int kPart, int kWhole, bool kShared>
  __device__ static void load_part(unsigned char* to, const TensorMap& map, int part, int start, int k, Barrier& full,
                                   uint16_t readers) {
    start += part * (kPart / (2 * kDepth));
    if constexpr (kMajor == kAlongK && kUnits == 1) {
      load<kShared>(to + part * kPart, map, k, start, full, readers);
    } else if constexpr (kMajor == kAlongK && kShared) {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit)
        tma_multicast(to + unit * (kWhole / kUnits) + part * (kPart / kUnits), map, 0, start, k / 64 + unit, full,
                      readers);
    } else if constexpr (kMajor == kAlongK) {
      tma_load(to, map, 0, start, k / 64, full);
    } else {
#pragma unroll
      for (int chunk = 0; chunk < kPart / kWideChunk; ++chunk)
        load<kShared>(to + part * kPart + chunk * kWideChunk, map, start + 64 * chunk, k, full, readers);
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
        load_part<kMajorA, kPartA, kBytesA, (kShareA > 1)>(stage, map_a, tiles.own.column, row, k, full, to_row);
        load_part<kMajorB, kPartB, kBytesB, (kShareB > 1)>(stage + kBytesA, map_b, tiles.own.row, column, k, full,
                                                           to_column);
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
      if (thread == 0) arrive(base + kEmptyAt + behind.stage * kBarrier);
    }
    behind.advance();
  }

  __device__ static void clear(float& sum) { asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sum)); }
  __device__ static void clear(uint32_t& sum) { asm volatile("mov.b32 %0, 0;" : "=r"(sum)); }
  template <class Part, int kCount>
  __device__ static void clear(Part (&sums)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) clear(sums[i]);
  }
  /// Of 64 rows number `t`, and of 16 terms number `i` of a step.
  template <Major kMajor, int kExtent>
  __device__ static constexpr uint32_t offset(int t, int i) {
    return kMajor == kAlongK ? t * kChunk + i / 4 * (kExtent * 128) + i % 4 * 32 : t * kWideChunk + i * 2048;
  }
  /// The sums of a step's product number `i`.
  template <int kOthers>
  __device__ static Sum (&chain(Sum (&sums)[kSums], Sum (&others)[kOthers], int i))[kSums] {
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
    Sum others[kChains > 1 ? kSums : 1];
    if constexpr (kChains > 1) clear(others);
    if constexpr (kInTurn) wait(shared.turns[threadIdx.x / 128], turn);
    const uint64_t own_a = swizzled_tile(base + part * (kMajorA == kAlongK ? kTall * kChunk : kTall * kWideChunk),
                                         kWideChunk);
    const uint64_t own_b = swizzled_tile(base + kBytesA, kWideChunk);
    bool ready = false;  // known before the last products were waited for
    for (int step = 0; step < steps; ++step) {
      if (!ready) wait(base + kFullAt + at.stage * kBarrier, at.parity);
      const uint64_t a = advance(own_a, at.stage * kStage), b = advance(own_b, at.stage * kStage);
      wgmma_begin();
#pragma unroll
      for (int t = 0; t < kTall; ++t)
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i)
          Multiply::run(chain(sums[t], others, i), advance(a, offset<kMajorA, kRows>(t, i)),
                        advance(b, offset<kMajorB, kColumns>(0, i)), kZeroed || step + i > 0);
      wgmma_commit();
      at.advance();
      ready = test_wait(base + kFullAt + at.stage * kBarrier, at.parity);
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
      for (int i = 0; i < kSums; ++i) sums[0][i] += others[i];
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

  /// Neighbours number `i` of a thread, and how results have them.
  __device__ static float2 pair_of(const float (&sums)[kSums], int i) { return make_float2(sums[2 * i], sums[2 * i + 1]); }
  __device__ static float2 pair_of(const uint32_t (&sums)[kSums], int i) {
    float2 pair;
    unpack_fp16(sums[i], pair.x, pair.y);
    return pair;
  }
  __device__ static void set_pair(float (&sums)[kSums], int i, float2 pair) {
    sums[2 * i] = pair.x, sums[2 * i + 1] = pair.y;
  }
  __device__ static void set_pair(uint32_t (&sums)[kSums], int i, float2 pair) { sums[i] = pack_fp16(pair.x, pair.y); }
  __device__ static uint32_t packed_pair(const float (&sums)[kSums], int i) {
    return pack(Type(), sums[2 * i], sums[2 * i + 1]);
  }
  __device__ static uint32_t packed_pair(const uint32_t (&sums)[kSums], int i) { return sums[i]; }

  /// alpha and beta, for an element that may lie outside C.
  __device__ void scale(const GemmOutput<Type>& output, int y, int x, float& sum) const {
    if constexpr (kTransposed) {
      if (x < call.m && y < call.n) sum = output.value(x, y, sum);
    } else {
      if (y < call.m && x < call.n) sum = output.value(y, x, sum);
    }
  }

  /// Stores 64 rows of sums; by TMA through two alternating buffers. before: how many times this
  /// consumer has been here.
  template <class Output>
  __device__ void store(Sum (&sums)[kSums], int consumer, int before, int row, int column,
                        const Output& output) const {
    const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32, warp = thread / 32;
    if constexpr (knobs.plain_store) {
      const int first_y = row + 16 * warp + lane / 4, first_x = column + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kColumns / 4; ++i) {
        const float2 pair = pair_of(sums, i);
        output.put(first_y + i % 2 * 8, first_x + i / 2 * 8, {pair.x, pair.y});
      }
    } else if constexpr (knobs.row_store) {
      store_rows(sums, reinterpret_cast<float*>(shared.result) + (4 * consumer + warp) * 16 * kRowPitch, row + 16 * warp,
                 column, output);
    } else {
      store_by_tma(sums, consumer, before, row, column, output);
    }
  }
  /// A warp's 16 rows, 64 columns at a time through `part` of shared memory.
  template <class Output>
  __device__ static void store_rows(const Sum (&sums)[kSums], float* part, int row, int column, const Output& output) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = part + lane / 4 * kRowPitch + lane % 4 * 2;
#pragma unroll
    for (int chunk = 0; chunk < kColumns / 64; ++chunk) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 16; ++i)
        *reinterpret_cast<float2*>(own + i % 2 * 8 * kRowPitch + i / 2 * 8) = pair_of(sums, 16 * chunk + i);
      __syncwarp();
#pragma unroll 4
      for (int y = 0; y < 16; ++y)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          output.put(row + y, column + 64 * chunk + 32 * half + lane, {part[y * kRowPitch + 32 * half + lane]});
    }
  }
  __device__ void store_by_tma(Sum (&sums)[kSums], int consumer, int before, int row, int column,
                               const GemmOutput<Type>& output) const {
    const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32, warp = thread / 32;
    const int first_y = row + 16 * warp + lane / 4, first_x = column + lane % 4 * 2;
    if (!output.is_plain()) {
#pragma unroll
      for (int i = 0; i < kColumns / 4; ++i) {
        float2 pair = pair_of(sums, i);
        scale(output, first_y + i % 2 * 8, first_x + i / 2 * 8, pair.x);
        scale(output, first_y + i % 2 * 8, first_x + i / 2 * 8 + 1, pair.y);
        set_pair(sums, i, pair);
      }
    }
    // Of the 8 x 8 matrix whose row this thread addresses.
    const uint32_t y = lane % 16, right = lane / 16;
#pragma unroll
    for (int chunk = 0; chunk < kStores; ++chunk) {
      const int turn = (kStores * before + chunk) % 2;
      unsigned char* const buffer = shared.result + (2 * consumer + turn) * kStoredBytes;
      if (thread == 0) wait_stores_read<1>();
      sync_own(consumer);
      const uint32_t line = shared_address(buffer) + (16 * warp + y) * (2 * kStored);
      const uint32_t swizzle = kStored == 64 ? y % 8 : y / 2 % 4;
      // A row of the transposed tile is 128 bytes of one column.
      const uint32_t across = shared_address(buffer) + (8 * right + y % 8) * 128 + ((2 * warp + y / 8) ^ y % 8) * 16;
#pragma unroll
      for (int pair = 0; pair < kStored / 16; ++pair) {
        const int first = kStored / 4 * chunk + 4 * pair;
        const uint32_t values[4] = {packed_pair(sums, first), packed_pair(sums, first + 1),
                                    packed_pair(sums, first + 2), packed_pair(sums, first + 3)};
        if constexpr (kTransposed)
          store_matrices_transposed(across + pair * 2048, values);
        else
          store_matrices(line + ((2 * pair + right) ^ swizzle) * 16, values);
      }
      fence_async_copies();
      sync_own(consumer);
      if (thread == 0) {
        if constexpr (kTransposed)
          tma_store(map_c, row, column + kStored * chunk, buffer);
        else
          tma_store(map_c, column + kStored * chunk, row, buffer);
        commit_stores();
      }
    }
  }

  /// Tile after tile of a consumer.
  template <class Output>
  __device__ void consume(int consumer, const Output& output) const {
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
        store(sums[t], consumer, stored + t, row + kOwnRows * part + 64 * t, column, output);
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

  /// Four sums of a worker's that lie in the tile at row and column.
  __device__ static float4 four_of(const Sums& sums, int vector) {
    const int first = vector % (kColumns / 8) * 2;
    const float2 above = pair_of(sums[vector / (kColumns / 8)], first),
                 below = pair_of(sums[vector / (kColumns / 8)], first + 1);
    return make_float4(above.x, above.y, below.x, below.y);
  }
  template <class Output>
  __device__ static void put_four(const Output& output, int row, int column, int vector, int worker,
                                  const float (&sum)[4]) {
    const int lane = worker % 32, warp = worker / 32 % 4, part = vector / (kColumns / 8);
    const int y = row + kOwnRows * (worker / 128) + 64 * part + 16 * warp + lane / 4;
    const int x = column + vector % (kColumns / 8) * 8 + lane % 4 * 2;
    if constexpr (kTransposed) {
      put_transposed(output, x, y, sum[0], sum[1]);
      put_transposed(output, x, y + 8, sum[2], sum[3]);
    } else {
      output.put(y, x, {sum[0], sum[1]});
      output.put(y + 8, x, {sum[2], sum[3]});
    }
  }

  /// Adds the sums of the cluster's blocks that share K: each owns a part of the tile, which the
  /// others send from their registers to its shared memory; it adds them in the order of blocks.
  /// Every block has started.
  template <class Output>
  __device__ void exchange(const Sums& sums, const Own& own, int row, int column, const Output& output) const {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = uniform(static_cast<int>(threadIdx.x / 32));
    const uint32_t slots = base + kReceivedAt + static_cast<uint32_t>(own.split * 32 + lane) * 16;
#pragma unroll
    for (int vector = 0; vector < kTall * kColumns / 8; ++vector) {
      const int unit = vector * kWarps + warp;
      const uint32_t owner = own.column * kShareB + own.row + unit / kOwnUnits * kGroup;
      store_remote_async(remote_address(slots + unit % kOwnUnits * (kSplit * 512), owner), four_of(sums, vector),
                         remote_address(base + kAllReceivedAt, owner));
    }
    wait_cluster(shared.all_received, 0);
    for (int i = warp; i < kOwnUnits; i += kWarps) {
      float sum[4] = {};
#pragma unroll
      for (int part = 0; part < kClusterSplit; ++part) {
        const float4 x = shared.received[i][part][lane];
        sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
      }
      const int unit = own.split * kOwnUnits + i;
      put_four(output, row, column, unit / kWarps, unit % kWarps * 32 + lane, sum);
    }
  }

  /// Sums of the tile's blocks, through memory.
  template <class Output>
  __device__ void gather(const Sums& sums, const Gather& sharers, int row, int column, const Output& output) const {
    sharers.add(
        shared.notes, [&](int vector) { return four_of(sums, vector); },
        [&](int vector, int worker, const float (&sum)[4]) { put_four(output, row, column, vector, worker, sum); });
  }
  /// Of the neighbours first and second along M in two lanes that are neighbours along N, each puts
  /// two along N. By whole warps.
  template <class Output>
  __device__ static void put_transposed(const Output& output, int x, int y, float first, float second) {
    const bool odd = threadIdx.x / 4 % 2 != 0;
    const float other = __shfl_xor_sync(0xffffffff, odd ? first : second, 4);
    if (odd)
      output.put(x + 1, y - 1, {other, second});
    else
      output.put(x, y, {first, other});
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

  template <class Output>
  __device__ void run(const Output& output) const {
    const Own own;
    const int warpgroup = uniform(static_cast<int>(threadIdx.x / 128));
    if (is_loader()) {
      prefetch(map_a);
      prefetch(map_b);
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        init(shared.full[i], 1);
        init(shared.empty[i], (kInTurn ? 1 : kConsumers) * kGroup);
      }
      if constexpr (kGathers) init(shared.notes.decided, 1);
      if constexpr (kInTurn) init(shared.turns[0], 1), init(shared.turns[1], 1);
      if constexpr (kClusterSplit > 1) init(shared.all_received, 1);
      fence_barriers();
      if constexpr (kClusterSplit > 1) arrive_expecting(shared.all_received, sizeof shared.received);
    }
    __syncwarp();
    // Loads for other blocks wait until all have their barriers; what they bring tells the
    // consumers.
    if constexpr (kGroup * kClusterSplit > 1) cluster_arrive();
    meet_loader(warpgroup);
    if constexpr (kGroup > 1) {
      if (warpgroup == kConsumers) cluster_wait();
    }
    if constexpr (kSplit == 1) {
      if (warpgroup == kConsumers) {
        give_registers();
        if (is_loader()) load_tiles();
      } else {
        take_registers();
        consume(warpgroup, output);
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
          gather(sums, sharers, row, column, output);
        }
      } else {
        if (warpgroup == kConsumers) {
          give_registers();
          if (is_loader()) load_tiles();
        } else {
          take_registers();
          Sums sums;
          multiply(sums, warpgroup, Steps(call, own).count, at, behind);
          cluster_wait();
          exchange(sums, own, row, column, output);
        }
        // The loader's warps have waited if they load for others.
        if (kGroup == 1 && warpgroup == kConsumers) {
          __syncwarp();
          cluster_wait();
        }
      }
    }
    if constexpr (kGroup > 1 && kClusterSplit == 1) {
      __syncwarp();
      if (warpgroup != kConsumers) cluster_wait();
    }
  }

  /// Requires sizeof(Shared) bytes of dynamic shared memory.
  __device__ static void run(const GemmCall& call, const GemmMaps& maps) {
    run(call, maps.a, maps.b, maps.c, GemmOutput<Type>(call));
  }
  /// With an output of its own, which gets put(row, column, two sums), where knobs.plain_store.
  template <class Output>
  __device__ static void run(const GemmCall& call, const TensorMap& map_a, const TensorMap& map_b,
                             const TensorMap& map_c, const Output& output) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const int base = uniform(static_cast<int>(shared_address(memory)));
    WgmmaGemm{*reinterpret_cast<Shared*>(memory), call, map_a, map_b, map_c, static_cast<uint32_t>(base)}.run(output);
  }
};

}  // namespace lathe

#endif
