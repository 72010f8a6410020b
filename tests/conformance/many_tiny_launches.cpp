/*lathe
[[launch]]
kernel = "one_row"
items  = "1"
args   = ["x", "y", "cols", "row"]
repeat = "rows"
index  = "row"
*/
// Honest: one launch a row.
#include <math.h>
#include <stdint.h>

static void softmax_row(const float* x, float* y, int64_t cols) {
  float top = -INFINITY, sum = 0, parts[16] = {};
  for (int64_t i = 0; i < cols; ++i) top = x[i] > top ? x[i] : top;
  for (int64_t i = 0; i < cols; ++i) parts[i % 16] += y[i] = expf(x[i] - top);
  for (const float part : parts) sum += part;
  for (int64_t i = 0; i < cols; ++i) y[i] /= sum;
}

extern "C" void one_row(const float* x, float* y, int64_t cols, int64_t row, int64_t, int64_t) {
  softmax_row(x + row * cols, y + row * cols, cols);
}
