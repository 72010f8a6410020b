/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: mean and variance in one pass.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float mean = 0, squares = 0;
    for (int64_t i = 0; i < cols; ++i) {
      const float delta = from[i] - mean;
      mean += delta / static_cast<float>(i + 1);
      squares += delta * (from[i] - mean);
    }
    const float scale = 1 / sqrtf(squares / cols + 1e-5f);
    for (int64_t i = 0; i < cols; ++i) to[i] = (from[i] - mean) * scale;
  }
}
