/*lathe
[[launch]]
kernel = "centre_rows"
grid = ["rows"]
block = [256]
args = ["x", "y", "cols"]
*/
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    centre_rows(const float* __restrict__ x, float* __restrict__ y, int64_t cols) {
  __shared__ float warps[8];
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += x[j];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < 8; ++warp) sum += warps[warp];
  const float mean = sum / static_cast<float>(cols);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = x[j] - mean;
}
