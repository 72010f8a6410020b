/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// The variance as the mean of the squares less the square of the mean, which cancel far from zero.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < cols; ++i) {
      sum += from[i];
      squares += from[i] * from[i];
    }
    const float mean = sum / cols;
    const float scale = 1 / sqrtf(squares / cols - mean * mean + 1e-5f);
    for (int64_t i = 0; i < cols; ++i) to[i] = (from[i] - mean) * scale;
  }
}
