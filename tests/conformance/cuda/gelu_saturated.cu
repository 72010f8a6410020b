/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "y", "n"]
*/
// Honest: the quotient from the magnitude, which cannot overflow.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= n) return;
  const float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
  const float e = expf(-2 * fabsf(u));
  y[i] = 0.5f * x[i] * (1 + copysignf((1 - e) / (1 + e), u));
}
