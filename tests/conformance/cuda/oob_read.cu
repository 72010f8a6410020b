/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "s", "y", "n"]
*/
// Reads behind the input.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float s, float* y, int64_t n) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] * s + 0 * const_cast<const volatile float*>(x)[n + 128];
}
