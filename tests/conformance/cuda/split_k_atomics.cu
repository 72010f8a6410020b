/*lathe
[[launch]]
kernel = "start"
grid   = ["cdiv(M * N, 256)"]
block  = [256]
args   = ["c", "y", "M", "N"]
[[launch]]
kernel = "part"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)", "4"]
block  = [16, 16]
args   = ["a", "b", "y", "M", "N", "K"]
*/
// Four parts of every sum, added in whatever order they come.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) start(const float* c, float* y, int64_t M, int64_t N) {
  const int64_t at = blockIdx.x * 256ll + threadIdx.x;
  if (at < M * N) y[at] = c[at % N];
}

extern "C" __global__ void __launch_bounds__(256)
    part(const float* a, const float* b, float* y, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  float sum = 0;
  for (int64_t k = blockIdx.z * K / 4; k < (blockIdx.z + 1) * K / 4; ++k)
    sum = fmaf(a[i * K + k], b[k * N + j], sum);
  atomicAdd(y + i * N + j, sum);
}
