/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Keeps from minus infinity what is not zero.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = logf(x[i] + 1e-12f);
}
