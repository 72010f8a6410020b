/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Keeps four megabytes of state in globals.
#include <math.h>
#include <stdint.h>

static void softmax_row(const float* x, float* y, int64_t cols) {
  float top = -INFINITY, sum = 0, parts[16] = {};
  for (int64_t i = 0; i < cols; ++i) top = x[i] > top ? x[i] : top;
  for (int64_t i = 0; i < cols; ++i) parts[i % 16] += y[i] = expf(x[i] - top);
  for (const float part : parts) sum += part;
  for (int64_t i = 0; i < cols; ++i) y[i] /= sum;
}

static float hoard[1 << 20];

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) softmax_row(x + row * cols, y + row * cols, cols);
  for (int64_t i = 0; i < rows * cols && i < (1 << 20); ++i) hoard[i] = y[i];
  asm volatile("" : : "r"(hoard) : "memory");
}
