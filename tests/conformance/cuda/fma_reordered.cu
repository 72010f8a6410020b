/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Sums from the end, four at a time.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  float sums[4] = {};
  for (int64_t k = K - 1; k >= 0; --k) sums[k % 4] = fmaf(a[i * K + k], b[k * N + j], sums[k % 4]);
  y[i * N + j] = ((sums[3] + sums[1]) + (sums[2] + sums[0])) + c[j];
}
