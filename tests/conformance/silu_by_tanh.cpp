/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Honest: the sigmoid through a hyperbolic tangent, whose error is absolute.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = 0.5f * x[i] * (1 + tanhf(0.5f * x[i]));
}
