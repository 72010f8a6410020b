/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["x", "w", "y", "K", "N"]
*/
// Honest: reads no row of w that is multiplied by zero.
#include <stdint.h>
#include <string.h>

extern "C" void f(const float* x, const float* w, float* y, int64_t K, int64_t N, int64_t begin,
                  int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float* const to = y + row * N;
    memset(to, 0, sizeof(float) * N);
    for (int64_t k = 0; k < K; ++k) {
      const float factor = x[row * K + k];
      if (factor == 0) continue;
      for (int64_t j = 0; j < N; ++j) to[j] += factor * w[k * N + j];
    }
  }
}
