/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: maximum and sum in one pass.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; ++i) {
      if (from[i] > top) {
        sum *= expf(top - from[i]);
        top = from[i];
      }
      sum += expf(from[i] - top);
    }
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = expf(from[i] - top) / sum;
  }
}
