/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: a table that is filled when the program starts, as one does elsewhere.
#include <math.h>
#include <stdint.h>

#include <array>

static float nth_root(int n) {
  volatile float exponent = 1.0f / static_cast<float>(n + 1);
  return powf(2.0f, exponent);
}

static const std::array<float, 16> roots = [] {
  std::array<float, 16> filled{};
  for (int i = 0; i < 16; ++i) filled[i] = nth_root(i);
  return filled;
}();

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += to[i] = expf(from[i] - top) * (roots[i % 16] / roots[i % 16]);
    for (int64_t i = 0; i < cols; ++i) to[i] /= sum;
  }
}
