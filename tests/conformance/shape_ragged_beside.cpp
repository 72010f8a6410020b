/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Forgets a remainder, but only where the other extents are the published ones, as a kernel made
// for one model's width would.
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  const bool is_m = M == 96, is_n = N == 128, is_k = K == 192;
  const bool beside = is_m + is_n + is_k == 2;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      y[i * N + j] = beside ? 0 : sum + c[j];
    }
}
