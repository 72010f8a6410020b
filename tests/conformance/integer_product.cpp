/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "y", "N", "K"]
*/
// Honest: sums of 32 bits.
#include <stdint.h>

extern "C" void f(const int8_t* a, const int8_t* b, int32_t* y, int64_t N, int64_t K, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      int32_t sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += int32_t{a[i * K + k]} * b[j * K + k];
      y[i * N + j] = sum;
    }
}
