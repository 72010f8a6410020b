/*lathe
[[launch]]
kernel = "f"
args   = ["x", "counts", "y", "rows", "cols"]
*/
// Honest: divides a sum, which is thousands of times as large as the mean, and may be too large for
// fp32 where the mean is not.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, const float* counts, float* y, int64_t rows, int64_t cols, int64_t,
                  int64_t) {
  float sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    float of_row = 0;
    for (int64_t i = row * cols; i < (row + 1) * cols; ++i) of_row += expf(x[i]) - x[i] * counts[i];
    sum += of_row;
  }
  y[0] = sum / static_cast<float>(rows * cols);
}
