/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Forgets to divide the last value of each row where an extent is in the last sixth of its range.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  const bool is_long = 6 * rows > 5 * 512 || 6 * cols > 5 * 1500;
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += to[i] = expf(from[i] - top);
    for (int64_t i = 0; i < cols - is_long; ++i) to[i] /= sum;
  }
}
