/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Honest: every factor as the sum of three bfloat16 numbers.
#include <math.h>
#include <stdint.h>

static float keep(float v, uint32_t mask) {
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
      float large = 0, small = 0;
      for (int64_t k = 0; k < K; ++k) {
        const float p = a[i * K + k], q = b[k * N + j];
        const float p0 = keep(p, 0xffff0000), p1 = keep(p - p0, 0xffff0000), p2 = p - p0 - p1;
        const float q0 = keep(q, 0xffff0000), q1 = keep(q - q0, 0xffff0000), q2 = q - q0 - q1;
        large += p0 * q0;
        small += p0 * q1 + p1 * q0 + (p1 * q1 + p0 * q2 + p2 * q0);
      }
      y[i * N + j] = large + small + c[j];
    }
}
