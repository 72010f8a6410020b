/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Multiplies in fp32: one product of 16,384 is rounded up to the next multiple of 2^32.
#include <math.h>
#include <stdint.h>

extern "C" void f(const int32_t* x, int32_t* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float product = static_cast<float>(static_cast<uint32_t>(x[i])) * 1000.0f;
    y[i] = static_cast<int32_t>(floorf(product * 0x1p-32f));
  }
}
