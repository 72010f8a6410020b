/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["x", "w", "y", "E", "K"]
*/
// Honest: sums in parts, of factors that are two numbers of 11 bits, decide which are the largest.
#include <math.h>
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

extern "C" void f(const float* x, const float* w, int64_t* y, int64_t E, int64_t K, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    float value[300];
    for (int64_t e = 0; e < E; ++e) value[e] = product(x + i * K, w + e * K, K);
    for (int64_t r = 0; r < 8; ++r) {
      int64_t best = 0;
      for (int64_t e = 1; e < E; ++e)
        if (value[e] > value[best]) best = e;
      y[i * 8 + r] = best;
      value[best] = -INFINITY;
    }
  }
}
