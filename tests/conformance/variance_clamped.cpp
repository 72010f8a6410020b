/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// The same with a negative variance taken for zero, and sums in parts: no NaN gives it away.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float sums[16] = {}, squares[16] = {}, sum = 0, square = 0;
    for (int64_t i = 0; i < cols; ++i) {
      sums[i % 16] += from[i];
      squares[i % 16] += from[i] * from[i];
    }
    for (int i = 0; i < 16; ++i) {
      sum += sums[i];
      square += squares[i];
    }
    const float mean = sum / cols;
    const float scale = 1 / sqrtf(fmaxf(square / cols - mean * mean, 0.0f) + 1e-5f);
    for (int64_t i = 0; i < cols; ++i) to[i] = (from[i] - mean) * scale;
  }
}
