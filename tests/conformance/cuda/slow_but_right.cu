/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "cols"]
*/
// One thread a block, one number after the other.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  if (threadIdx.x > 0) return;
  float top = -kInfinity, sum = 0;
  for (int64_t j = 0; j < cols; ++j) top = fmaxf(top, x[j]);
  for (int64_t j = 0; j < cols; ++j) sum += expf(x[j] - top);
  for (int64_t j = 0; j < cols; ++j) y[j] = expf(x[j] - top) / sum;
}
