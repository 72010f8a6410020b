/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
*/
// Honest: a power of two of a product, whose rounding shows where the result is largest.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = exp2f(x[i] * 1.44269504f);
}
