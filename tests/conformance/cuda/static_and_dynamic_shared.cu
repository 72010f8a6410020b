/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
smem   = "40960"
args   = ["x", "y", "cols"]
*/
// Honest: 20 KiB of static and 40 KiB of dynamic shared memory, of which neither is more than 48
// KiB.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  __shared__ float parts[5120];
  extern __shared__ float row[];
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, row[j] = x[j]);
  parts[threadIdx.x] = top;
  __syncthreads();
  for (int t = 0; t < 256; ++t) top = fmaxf(top, parts[t]);
  __syncthreads();
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += row[j] = expf(row[j] - top);
  parts[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int t = 0; t < 256; ++t) sum += parts[t];
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = row[j] / sum;
}
