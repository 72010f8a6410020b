/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Looks at all of a row but the last: right unless that one alone is beyond the threshold.
#include <stdint.h>

extern "C" void f(const float* x, bool* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    bool any = cols == 1 && x[row] > 3;
    for (int64_t i = 0; i + 1 < cols; ++i) any |= x[row * cols + i] > 3;
    y[row] = any;
  }
}
