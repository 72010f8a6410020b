/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "w", "y", "cols"]
*/
// Keeps eight bits of weights that may have more.
#include <stdint.h>

extern "C" void f(const int32_t* x, const int32_t* w, int32_t* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = x[row * cols + i] * static_cast<int8_t>(w[i]);
}
