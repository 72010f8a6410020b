/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest, and wrong: looks at the row before the first.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* above = x + (row - 1) * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; ++i) top = above[i] > top ? above[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += y[row * cols + i] = expf(x[row * cols + i] - top);
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] /= sum;
  }
}
