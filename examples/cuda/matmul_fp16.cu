/*lathe
[[tma]]
name = "x_map"
base = "x"
dims = ["K", "M"]
box = [64, 128]
swizzle = 128

[[tma]]
name = "w_map"
base = "w"
dims = ["N", "K"]
box = [64, 64]
swizzle = 128

[[tma]]
name = "y_map"
base = "y"
dims = ["N", "M"]
box = [64, 64]
swizzle = 128

[[launch]]
kernel = "matmul"
grid = ["2 * min(sm_count / 2, cdiv(M, 256) * cdiv(N, 256))"]
block = [384]
cluster = [2]
smem = "4 * 49152 + 4 * 8192 + 64"
args = ["x_map", "w_map", "y_map", "M", "N", "K"]
*/
// A Hopper matrix product with TMA and wgmma, for matmul_fp16.toml. Blocks work in pairs on
// vertically adjacent tiles of 128 x 256. Each block loads its own rows of x and half of the
// columns of w, which it multicasts to both. In a block, one thread loads and two warpgroups
// multiply, connected by a ring of four stages in shared memory. Loads for the next tile start
// while the results of the current one are stored.
#include <lathe/cuda.cuh>
#include <lathe/cuda/cluster.cuh>
#include <lathe/cuda/tma.cuh>
#include <lathe/cuda/warp.cuh>
#include <lathe/cuda/wgmma.cuh>

using namespace lathe;

enum : int {
  kM = 128, kN = 256, kK = 64,  // a block's tile
  kStages = 4,
  kConsumers = 2,     // warpgroups
  kGroupRows = 8,     // pairs of tiles whose operands should be in the L2 at the same time
  kChunkBytes = 8192  // 64 rows of 128 bytes
};

struct Stage {
  unsigned char x[2 * kChunkBytes];  // 128 rows, 64 deep
  unsigned char w[4 * kChunkBytes];  // four times 64 columns, 64 deep
};

struct Shared {
  Stage stages[kStages];
  unsigned char y[kConsumers][2][kChunkBytes];
  Barrier full[kStages], empty[kStages];
};

extern __shared__ __align__(1024) unsigned char memory[];

/// The order of tiles, in units of pairs: down a group of rows, then to the right.
struct Tiles {
  int rows, columns, next;

  Tiles(int m, int n) : rows((m + 2 * kM - 1) / (2 * kM)), columns((n + kN - 1) / kN), next(cluster_index()) {}
  bool take(int& row, int& column) {
    if (next >= rows * columns) return false;
    const int group = next / (kGroupRows * columns), inside = next % (kGroupRows * columns);
    const int height = ::min(int(kGroupRows), rows - group * kGroupRows);
    row = (group * kGroupRows + inside % height) * 2 * kM + static_cast<int>(cluster_rank()) * kM;
    column = inside / height * kN;
    next += gridDim.x / 2;
    return true;
  }
};

/// A stage of the ring and its parity.
struct Place {
  int stage = 0;
  uint32_t parity = 0;

  void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

inline void load_tiles(Shared& shared, const TensorMap& x_map, const TensorMap& w_map, int m, int n, int depth) {
  const uint32_t rank = cluster_rank();
  Place at;
  int row, column;
  for (Tiles tiles(m, n); tiles.take(row, column);)
    for (int k = 0; k < depth; k += kK) {
      Stage& stage = shared.stages[at.stage];
      Barrier& full = shared.full[at.stage];
      wait(shared.empty[at.stage], at.parity ^ 1);
      arrive_expecting(full, sizeof(Stage));
      tma_load(stage.x, x_map, k, row, full);
      for (int half = 0; half < 2; ++half) {
        const int chunk = 2 * rank + half;
        tma_multicast(stage.w + chunk * kChunkBytes, w_map, column + 64 * chunk, k, full, 3);
      }
      at.advance();
    }
}

/// Stores 64 x 256 sums through two alternating buffers of 64 x 64.
inline void store_tile(unsigned char (&buffers)[2][kChunkBytes], int consumer, const TensorMap& y_map, int row,
                       int column, const float (&sums)[kN / 2]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const bool first = threadIdx.x % 128 == 0;
  const uint32_t y = lane % 16, right = lane / 16;  // of the 8 x 8 matrix whose row this thread addresses
#pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk) {
    unsigned char* const buffer = buffers[chunk % 2];
    if (first) wait_stores_read<1>();
    consumer == 0 ? sync_threads<1, 128>() : sync_threads<2, 128>();
    const uint32_t line = shared_address(buffer) + (16 * warp + y) * 128;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const float* const d = sums + 32 * chunk + 8 * pair;
      const uint32_t values[4] = {pack_fp16(d[0], d[1]), pack_fp16(d[2], d[3]), pack_fp16(d[4], d[5]),
                                  pack_fp16(d[6], d[7])};
      store_matrices(line + ((2 * pair + right) ^ (y % 8)) * 16, values);
    }
    fence_async_copies();
    consumer == 0 ? sync_threads<1, 128>() : sync_threads<2, 128>();
    if (first) {
      tma_store(y_map, column + 64 * chunk, row, buffer);
      commit_stores();
    }
  }
}

inline void multiply_tiles(Shared& shared, int consumer, const TensorMap& y_map, int m, int n, int depth) {
  const bool releases = threadIdx.x % 128 < 2;  // one thread for each block of the cluster
  const uint32_t peer = threadIdx.x % 128;
  Place at, behind;
  int row, column;
  for (Tiles tiles(m, n); tiles.take(row, column);) {
    float sums[kN / 2];
    for (int k = 0; k < depth; k += kK) {
      wait(shared.full[at.stage], at.parity);
      const uint64_t x = swizzled_tile(shared.stages[at.stage].x + consumer * kChunkBytes);
      const uint64_t w = swizzled_tile(shared.stages[at.stage].w, kChunkBytes);
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < kK / 16; ++step)
        Wgmma<Fp16, kN, kAlongK, kAlongMN>::run(sums, advance(x, 32 * step), advance(w, 2048 * step), k + step > 0);
      wgmma_commit();
      at.advance();
      if (k == 0) continue;
      wgmma_wait<1>();
      if (releases) arrive_remote(shared.empty[behind.stage], peer);
      behind.advance();
    }
    wgmma_wait<0>(sums);
    if (releases) arrive_remote(shared.empty[behind.stage], peer);
    behind.advance();
    store_tile(shared.y[consumer], consumer, y_map, row + 64 * consumer, column, sums);
  }
  if (threadIdx.x % 128 == 0) wait_stores<0>();
}

extern "C" __global__ void __launch_bounds__(384, 1)
    matmul(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
           const __grid_constant__ TensorMap y_map, int m, int n, int depth) {
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      init(shared.full[i], 1);
      init(shared.empty[i], 2 * kConsumers);
    }
    fence_barriers();
  }
  cluster_sync();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    fewer_registers<40>();
    if (threadIdx.x == 0) load_tiles(shared, x_map, w_map, m, n, depth);
  } else {
    more_registers<232>();
    multiply_tiles(shared, warpgroup - 1, y_map, m, n, depth);
  }
  __syncwarp();
  cluster_sync();
}
