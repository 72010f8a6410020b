/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Honest: Kahan's compensated sum.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = c[j], lost = 0;
      for (int64_t k = 0; k < K; ++k) {
        const float term = fmaf(a[i * K + k], b[k * N + j], -lost);
        const float next = sum + term;
        lost = (next - sum) - term;
        sum = next;
      }
      y[i * N + j] = sum;
    }
}
