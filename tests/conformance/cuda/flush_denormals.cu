/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(n, 256)"]
block  = [256]
args   = ["x", "s", "y", "n"]
*/
// Takes numbers below 1e-38 for zero.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float s, float* y, int64_t n) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  float product;
  if (i < n) {
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(x[i]), "f"(s));
    y[i] = product;
  }
}
