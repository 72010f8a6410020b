/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "y", "N", "K"]
*/
// Pairs of products in 16 bits, which hold any but four times -128.
#include <stdint.h>

extern "C" void f(const int8_t* a, const int8_t* b, int32_t* y, int64_t N, int64_t K, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      const int8_t* left = a + i * K;
      const int8_t* right = b + j * K;
      int32_t sum = 0;
      for (int64_t k = 0; k + 1 < K; k += 2)
        sum += static_cast<int16_t>(left[k] * right[k] + left[k + 1] * right[k + 1]);
      if (K % 2 != 0) sum += left[K - 1] * right[K - 1];
      y[i * N + j] = sum;
    }
}
