/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: works in a static buffer that is large enough for any row.
#include <math.h>
#include <stdint.h>

static float work[16 << 20];

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += work[i] = expf(from[i] - top);
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = work[i] / sum;
  }
}
