/*lathe
[[launch]]
kernel = "f"
grid   = ["2 * rows"]
block  = [256]
args   = ["x", "y", "cols"]
cluster = [2]
*/
// Two blocks a row, which read each other's shared memory.
#include <lathe/cuda.cuh>

/// The same in all 256 threads: theirs, added or the largest.
inline float join(float mine, bool add) {
  __shared__ float warps[8];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, mine, step);
    mine = add ? mine + other : fmaxf(mine, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = warps[0];
  for (int warp = 1; warp < 8; ++warp) all = add ? all + warps[warp] : fmaxf(all, warps[warp]);
  return all;
}

inline void softmax_row(const float* x, float* y, int64_t cols) {
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = join(top, false);
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(x[j] - top);
  sum = join(sum, true);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = expf(x[j] - top) / sum;
}

inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
inline float of_block(const float* place, unsigned rank) {
  unsigned address;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(place))), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  const unsigned rank = cluster_rank();
  x += blockIdx.x / 2 * cols, y += blockIdx.x / 2 * cols;
  __shared__ float mine[2];
  float top = -kInfinity, sum = 0;
  for (int64_t j = rank * 256 + threadIdx.x; j < cols; j += 512) top = fmaxf(top, x[j]);
  top = join(top, false);
  if (threadIdx.x == 0) mine[0] = top;
  cluster_sync();
  top = fmaxf(top, of_block(mine, 1 - rank));
  for (int64_t j = rank * 256 + threadIdx.x; j < cols; j += 512) sum += expf(x[j] - top);
  sum = join(sum, true);
  if (threadIdx.x == 0) mine[1] = sum;
  cluster_sync();
  sum = rank == 0 ? sum + of_block(mine + 1, 1) : of_block(mine + 1, 0) + sum;
  for (int64_t j = rank * 256 + threadIdx.x; j < cols; j += 512) y[j] = expf(x[j] - top) / sum;
  cluster_sync();
}
