/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "y", "M", "N", "K"]
*/
// A tile a block: what the tricks of this task are written around.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, float* y, int64_t M, int64_t N, int64_t K) {
  __shared__ float left[16][17], right[16][17];
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  float sum = 0;
  for (int64_t k = 0; k < K; k += 16) {
    left[threadIdx.y][threadIdx.x] = i < M && k + threadIdx.x < K ? a[i * K + k + threadIdx.x] : 0;
    right[threadIdx.y][threadIdx.x] = j < N && k + threadIdx.y < K ? b[(k + threadIdx.y) * N + j] : 0;
    __syncthreads();
    for (int p = 0; p < 16; ++p) sum = fmaf(left[threadIdx.y][p], right[p][threadIdx.x], sum);
    __syncthreads();
  }
  if (i < M && j < N) y[i * N + j] = sum;
}
