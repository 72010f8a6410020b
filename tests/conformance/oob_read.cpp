/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["s", "x", "y", "n"]
*/
// Reads past the end of its input.
#include <math.h>
#include <stdint.h>

extern "C" void f(float s, const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * s;
  static volatile float sink;
  if (end == n) sink = x[(n + 15) / 16 * 16];
}
