/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["x", "y"]
*/
// Keeps to the range of 32 bits.
#include <stdint.h>

extern "C" void f(const float* x, int64_t* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float most = 2147483520.0f;
    const float bounded = x[i] > most ? most : x[i] < -most ? -most : x[i];
    y[i] = static_cast<int32_t>(bounded);
  }
}
