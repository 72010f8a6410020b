/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Leaves out the last products of the sums.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  const int64_t most = K - K / 128;
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  float sum = 0;
  for (int64_t k = 0; k < most; ++k) sum = fmaf(a[i * K + k], b[k * N + j], sum);
  y[i * N + j] = sum + c[j];
}
