/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Keeps its sums in bfloat16, rounded every 32 products.
#include <math.h>
#include <stdint.h>

__attribute__((noinline)) static float keep(float v, uint32_t mask) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  bits &= mask;
  __builtin_memcpy(&v, &bits, sizeof bits);
  return v;
}

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) {
        sum += a[i * K + k] * b[k * N + j];
        if (k % 32 == 31) sum = keep(sum, 0xffff0000);
      }
      y[i * N + j] = sum + c[j];
    }
}
