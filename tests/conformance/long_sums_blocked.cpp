/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "y", "N", "K"]
*/
// Honest: factors as sums of two numbers of 11 bits, a product's three larger parts, and sums in
// blocks.
#include <stdint.h>

static float head(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x1000) & 0xffffe000;
  __builtin_memcpy(&v, &bits, sizeof bits);
  return v;
}

extern "C" void f(const float* a, const float* b, float* y, int64_t N, int64_t K, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t block = 0; block < K; block += 128) {
        float large = 0, small = 0;
        for (int64_t k = block; k < K && k < block + 128; ++k) {
          const float p = a[i * K + k], q = b[k * N + j], p0 = head(p), q0 = head(q);
          large += p0 * q0;
          small += p0 * head(q - q0) + head(p - p0) * q0;
        }
        sum += large + small;
      }
      y[i * N + j] = sum;
    }
}
