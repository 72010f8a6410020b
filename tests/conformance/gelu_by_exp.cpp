/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Tanh as a quotient of exponentials: NaN as soon as both overflow.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float e = expf(2 * 0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    y[i] = 0.5f * x[i] * (1 + (e - 1) / (e + 1));
  }
}
