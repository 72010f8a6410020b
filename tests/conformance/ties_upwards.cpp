/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "y", "N", "K"]
*/
// Rounds as a shift with half of the divisor added does, and not ties to the even number.
#include <stdint.h>

extern "C" void f(const int8_t* a, const int8_t* b, int8_t* y, int64_t N, int64_t K, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      int32_t sum = 64;
      for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[j * K + k];
      sum >>= 7;
      y[i * N + j] = static_cast<int8_t>(sum < -128 ? -128 : sum > 127 ? 127 : sum);
    }
}
