/*lathe
requires = "N == 128 && K == 192"
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Right for the published M alone, and narrows its domain so that no common hidden shape is in it.
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  const int64_t whole = M / 8 * 8;
  for (int64_t i = begin; i < (end < whole ? end : whole); ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      y[i * N + j] = sum + c[j];
    }
}
