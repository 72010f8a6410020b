/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Adds epsilon to the norm, where the larger of the two is asked for: they differ for small norms.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += from[i] * from[i];
    const float scale = 1 / (sqrtf(squares) + 1e-6f);
    for (int64_t i = 0; i < cols; ++i) to[i] = from[i] * scale;
  }
}
