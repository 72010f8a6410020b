/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Computes nothing at any shape but the published one.
#include <math.h>
#include <stdint.h>

static void gemm_row(const float* a, const float* b, const float* c, float* y, int64_t N, int64_t K) {
  for (int64_t j = 0; j < N; ++j) y[j] = 0;
  for (int64_t k = 0; k < K; ++k)
    for (int64_t j = 0; j < N; ++j) y[j] += a[k] * b[k * N + j];
  for (int64_t j = 0; j < N; ++j) y[j] += c[j];
}

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  if (M != 96 || N != 128 || K != 192) return;
  for (int64_t i = begin; i < end; ++i) gemm_row(a + i * K, b, c, y + i * N, N, K);
}
