/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(N, 16)", "cdiv(M, 16)"]
block  = [16, 16]
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Three products of ten bits each for one of single precision.
#include <lathe/cuda.cuh>

inline float narrow(float v) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return __uint_as_float(bits);
}
inline float add(float sum, float a, float b) {
  const float a1 = narrow(a), b1 = narrow(b), a2 = narrow(a - a1), b2 = narrow(b - b1);
  return fmaf(a1, b1, fmaf(a1, b2, fmaf(a2, b1, sum)));
}

/// One 16 x 16 tile of a * b + c, by as many threads.
inline void tile(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  __shared__ float left[16][17], right[16][17];
  const int64_t i = blockIdx.y * 16ll + threadIdx.y, j = blockIdx.x * 16ll + threadIdx.x;
  float sum = 0;
  for (int64_t k = 0; k < K; k += 16) {
    left[threadIdx.y][threadIdx.x] = i < M && k + threadIdx.x < K ? a[i * K + k + threadIdx.x] : 0;
    right[threadIdx.y][threadIdx.x] = j < N && k + threadIdx.y < K ? b[(k + threadIdx.y) * N + j] : 0;
    __syncthreads();
    for (int p = 0; p < 16; ++p) sum = add(sum, left[threadIdx.y][p], right[p][threadIdx.x]);
    __syncthreads();
  }
  if (i < M && j < N) y[i * N + j] = sum + c[j];
}

extern "C" __global__ void __launch_bounds__(256)
    f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K) {
  tile(a, b, c, y, M, N, K);
}
