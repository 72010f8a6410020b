/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Honest: the same quotient from the magnitude, which cannot overflow.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float u = 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
    const float e = expf(-2 * fabsf(u));
    y[i] = 0.5f * x[i] * (1 + copysignf((1 - e) / (1 + e), u));
  }
}
