/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Adds products pairwise.
#include <lathe/cuda.cuh>

inline float pairs(const float* a, const float* b, int64_t N, int64_t K) {
  float level[12];  // sums of 2^l products that wait for their twin
  for (int64_t k = 0; k < K; ++k) {
    float sum = a[k] * b[k * N];
    int64_t rest = k;
    int l = 0;
    for (; rest & 1; rest >>= 1) sum += level[l++];
    level[l] = sum;
  }
  float total = 0;
  for (int l = 0; l < 12; ++l)
    if (K >> l & 1) total += level[l];
  return total;
}

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  y[i * N + j] = pairs(a + i * K, b + j, N, K) + c[j];
}
