/*lathe
[[launch]]
kernel = "f"
items  = "N"
args   = ["x", "w", "y", "K"]
*/
// Honest: a few sums in parts, of factors that are two numbers of 11 bits.
#include <stdint.h>

static float head(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x1000) & 0xffffe000;
  __builtin_memcpy(&v, &bits, sizeof bits);
  return v;
}

static float product(const float* a, const float* b, int64_t K) {
  float sum = 0;
  for (int64_t block = 0; block < K; block += 128) {
    float large = 0, small = 0;
    for (int64_t k = block; k < K && k < block + 128; ++k) {
      const float p = head(a[k]), q = head(b[k]);
      large += p * q;
      small += p * head(b[k] - q) + head(a[k] - p) * q;
    }
    sum += large + small;
  }
  return sum;
}

extern "C" void f(const float* x, const float* w, float* y, int64_t K, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) y[j] = product(x, w + j * K, K);
}
