#pragma once

#include "lathe/cuda/gemm_output.cuh"

#if __CUDA_ARCH__ >= 900

namespace lathe {

/// What the threads of a block tell each other while it gathers sums.
struct GatherNotes {
  Barrier decided;
  uint32_t stays;
  uint32_t left;  ///< blocks that are gone, or all ones: this one goes too
};

/// The sums of a tile whose K is shared by kSplit blocks anywhere on the GPU. Each writes its
/// partial sums to a workspace, then adds a part of all of them, in the order of blocks: the bits
/// do not depend on who comes first.
///
/// A block waits for the others only if they have all started, as they then need nothing of it:
/// products on several streams cannot block each other, however few of their blocks run at once.
/// One that finds that some have not started goes, and leaves its part to one that stays; the last
/// to start stays.
///
/// The workspace begins with a word for each tile, which is zero before and after every product.
/// kWorkers threads take part, with kVectors times four sums each.
template <int kSplit, int kWorkers, int kVectors>
struct GemmGather {
  enum { kAll = kVectors * kWorkers, kCounters = 4096 };
  static_assert(kSplit <= 32);

  uint64_t* word;  ///< 8 bits: started, arrived, departed; from 32 on: who left
  float4* slices;
  int rank;

  __device__ GemmGather(void* workspace, int tile, int own_rank)
      : word(static_cast<uint64_t*>(workspace) + tile),
        slices(reinterpret_cast<float4*>(static_cast<uint64_t*>(workspace) + kCounters) +
               static_cast<int64_t>(tile) * kSplit * kAll),
        rank(own_rank) {}

  static constexpr uint64_t kStarted = 1, kArrived = 1 << 8, kDeparted = 1 << 16, kLeft = uint64_t{1} << 32;

  /// By one thread, which passes the result to decide() when it has nothing else to do.
  __device__ uint64_t start() const {
    uint64_t before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(word), "l"(kStarted)
                 : "memory");
    return before;
  }
  __device__ void decide(GatherNotes& notes, uint64_t before) const {
    bool all = before % 256 + 1 == kSplit;
    for (int tries = 0; tries < 8 && !all; ++tries) all = load_word() % 256 == kSplit;
    notes.stays = all;
    arrive(notes.decided);
  }

  /// By all workers, of which each has kVectors times four sums, get(vector): put(vector, worker,
  /// sums) for a part of the tile's.
  template <class Get, class Put>
  __device__ void add(GatherNotes& notes, const Get& get, const Put& put) const {
    const int worker = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      __stcg(slices + rank * kAll + i * kWorkers + worker, get(i));
    sync_threads<1, kWorkers>();
    if (worker == 0) notes.left = arrive_and_wait(notes);
    sync_threads<1, kWorkers>();
    const uint32_t left = notes.left;
    if (left == ~0u) return;
    add_part(rank, put);
    if (left == 0 || rank != __ffs(static_cast<int>(~left)) - 1) return;
    for (int part = 0; part < kSplit; ++part)
      if (left >> part & 1) add_part(part, put);
  }

 private:
  __device__ uint64_t load_word() const {
    uint64_t now;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(word) : "memory");
    return now;
  }
  __device__ uint64_t add_to_word(uint64_t x) const {
    uint64_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(word), "l"(x) : "memory");
    return before;
  }
  __device__ uint32_t arrive_and_wait(GatherNotes& notes) const {
    wait(notes.decided, 0);
    if (!notes.stays) {
      add_to_word(kArrived + kDeparted + (kLeft << rank));
      return ~0u;
    }
    uint64_t now = add_to_word(kArrived) + kArrived;
    while (now / kArrived % 256 != kSplit) now = load_word();
    if (add_to_word(kDeparted) / kDeparted % 256 == kSplit - 1) *word = 0;
    return static_cast<uint32_t>(now >> 32);
  }

  template <class Put>
  __device__ void add_part(int part, const Put& put) const {
    const int first = kAll / kSplit * part, last = part + 1 == kSplit ? int{kAll} : first + kAll / kSplit;
#pragma unroll
    for (int i = 0; i < (kAll / kSplit + kAll % kSplit + kWorkers - 1) / kWorkers; ++i) {
      const int at = first + i * kWorkers + static_cast<int>(threadIdx.x);
      if (kAll % (kSplit * kWorkers) != 0 && at >= last) return;
      float sum[4] = {};
#pragma unroll
      for (int p = 0; p < kSplit; ++p) {
        const float4 x = __ldcg(slices + p * kAll + at);
        sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
      }
      put(at / kWorkers, at % kWorkers, sum);
    }
  }
};

}  // namespace lathe

#endif
