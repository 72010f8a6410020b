/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Adds with a correction.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  float sum = 0, lost = 0;
  for (int64_t k = 0; k < K; ++k) {
    const float product = __fsub_rn(__fmul_rn(a[i * K + k], b[k * N + j]), lost);
    const float next = __fadd_rn(sum, product);
    lost = __fsub_rn(__fsub_rn(next, sum), product);
    sum = next;
  }
  y[i * N + j] = sum + c[j];
}
