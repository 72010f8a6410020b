/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Honest: log1p(x) = 2 atanh(x / (2 + x)), which keeps small inputs' digits.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] < 1 ? 2 * atanhf(x[i] / (2 + x[i])) : logf(1 + x[i]);
}
