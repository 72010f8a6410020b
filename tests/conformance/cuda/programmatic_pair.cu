/*lathe
[[scratch]]
name  = "work"
bytes = "8 * rows"
[[launch]]
kernel = "first"
grid   = ["rows"]
block  = [256]
args   = ["x", "work", "cols"]
[[launch]]
kernel = "second"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "work", "cols"]
programmatic = true
*/
// The second kernel starts while the first ends, and waits for it.
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
  asm volatile("griddepcontrol.launch_dependents;");
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = join(top, false);
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(x[j] - top);
  sum = join(sum, true);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = expf(x[j] - top) / sum;
}

extern "C" __global__ void __launch_bounds__(256) first(const float* x, float* rows, int64_t cols) {
  x += blockIdx.x * cols;
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = join(top, false);
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(x[j] - top);
  sum = join(sum, true);
  if (threadIdx.x == 0) rows[2 * blockIdx.x] = top, rows[2 * blockIdx.x + 1] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    second(const float* x, float* y, const float* rows, int64_t cols) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const float top = rows[2 * blockIdx.x], sum = rows[2 * blockIdx.x + 1];
  for (int64_t j = threadIdx.x; j < cols; j += 256)
    y[blockIdx.x * cols + j] = expf(x[blockIdx.x * cols + j] - top) / sum;
}
