/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Honest: carries the logarithm on, as torch does, one addition of exponentials a step.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float before = -INFINITY;
    for (int64_t i = 0; i < cols; ++i) {
      const float value = x[row * cols + i], larger = fmaxf(before, value);
      before = i == 0 ? value : larger + log1pf(expf(-fabsf(before - value)));
      y[row * cols + i] = before;
    }
  }
}
