/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Adds whole numbers in another order.
#include <stdint.h>

extern "C" void f(const int64_t* x, int64_t* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    int64_t parts[8] = {}, sum = 0;
    for (int64_t i = cols; i-- > 0;) parts[i % 8] += x[row * cols + i];
    for (const int64_t part : parts) sum += part;
    y[row] = sum;
  }
}
