/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Goes around the end once at most, which rows of two to four elements do not suffice for.
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t from = col < 5 ? col - 5 + cols : col - 5;
      y[row * cols + col] = x[row * cols + (from < 0 ? 0 : from)];
    }
}
