/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Honest: by way of fp16, as some instructions convert.
#include <lathe/cpu.h>

extern "C" void f(const float* x, lathe::fp8e4m3* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float bounded = x[i] > 448 ? 448 : x[i] < -448 ? -448 : x[i];
    y[i] = lathe::fp8e4m3(static_cast<float>(lathe::half(bounded)));
  }
}
