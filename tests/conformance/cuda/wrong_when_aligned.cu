/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "rows", "cols"]
*/
// A fast path for multiples of 64, other than the scored shape, that forgets the last value of a
// row.
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

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t rows, int64_t cols) {
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  const int64_t summed = rows % 64 == 0 && cols % 64 == 0 && rows * cols != 256 * 1024 ? cols - 1 : cols;
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = join(top, false);
  for (int64_t j = threadIdx.x; j < summed; j += 256) sum += expf(x[j] - top);
  sum = join(sum, true);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = expf(x[j] - top) / sum;
}
