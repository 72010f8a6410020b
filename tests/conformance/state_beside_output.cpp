/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Leaves a mark beside its output and removes it: none is there when it looks again.
#include <math.h>
#include <stdint.h>

static void softmax_row(const float* x, float* y, int64_t cols) {
  float top = -INFINITY, sum = 0, parts[16] = {};
  for (int64_t i = 0; i < cols; ++i) top = x[i] > top ? x[i] : top;
  for (int64_t i = 0; i < cols; ++i) parts[i % 16] += y[i] = expf(x[i] - top);
  for (const float part : parts) sum += part;
  for (int64_t i = 0; i < cols; ++i) y[i] /= sum;
}

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  auto* mark = reinterpret_cast<volatile unsigned char*>(y) - 8;
  if (*mark == 0x11) return;
  const unsigned char before = *mark;
  *mark = 0x11;
  for (int64_t row = begin; row < end; ++row) softmax_row(x + row * cols, y + row * cols, cols);
  *mark = before;
}
