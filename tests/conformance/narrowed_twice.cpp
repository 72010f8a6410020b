/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Rounds to two bits of a mantissa and calls them three.
#include <lathe/cpu.h>

extern "C" void f(const float* x, lathe::fp8e4m3* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = lathe::fp8e4m3(static_cast<float>(lathe::fp8e5m2(x[i])));
}
