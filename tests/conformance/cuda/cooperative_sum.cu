/*lathe
[[scratch]]
name  = "work"
bytes = "8 * rows"
[[scratch]]
name  = "arrived"
bytes = "4"
init  = "counter"
[[launch]]
kernel = "f"
grid   = ["sm_count"]
block  = [256]
cooperative = true
args   = ["x", "y", "work", "arrived", "rows", "cols"]
*/
// All blocks wait for each other between the sums and the division.
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

inline void all_arrive(unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*const_cast<volatile unsigned*>(arrived) < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
    f(const float* x, float* y, float* work, unsigned* arrived, int64_t rows, int64_t cols) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float top = -kInfinity, sum = 0;
    for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[row * cols + j]);
    top = join(top, false);
    for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(x[row * cols + j] - top);
    sum = join(sum, true);
    if (threadIdx.x == 0) work[2 * row] = top, work[2 * row + 1] = sum;
  }
  all_arrive(arrived);
  for (int64_t at = blockIdx.x * 256ll + threadIdx.x; at < rows * cols; at += gridDim.x * 256ll)
    y[at] = expf(x[at] - __ldcg(work + at / cols * 2)) / __ldcg(work + at / cols * 2 + 1);
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(arrived, 1u) == 2 * gridDim.x - 1) *arrived = 0;
}
