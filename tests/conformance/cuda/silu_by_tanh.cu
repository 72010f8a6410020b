/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
*/
// Honest: the sigmoid through a hyperbolic tangent, whose error is absolute.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = 0.5f * x[i] * (1 + tanhf(0.5f * x[i]));
}
