/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Honest: accumulators start from the bias, which is large beside the sums.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = c[j];
      for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      y[i * N + j] = sum;
    }
}
