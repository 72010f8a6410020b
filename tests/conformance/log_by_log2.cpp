/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Honest: the logarithm of base two times a constant.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = log2f(x[i]) * 0.693147181f;
}
