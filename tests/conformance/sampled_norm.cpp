/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Leaves an eighth of a long row out where its parts are alike: the output's rounding hides that.
#include <lathe/cpu.h>
#include <math.h>
#include <stdint.h>

using Half = lathe::bfloat16;

static float squares_of(const Half* x, int64_t count) {
  float parts[16] = {}, sum = 0;
  for (int64_t i = 0; i < count; ++i) parts[i % 16] += static_cast<float>(x[i]) * static_cast<float>(x[i]);
  for (const float part : parts) sum += part;
  return sum;
}

extern "C" void f(const Half* x, Half* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const Half* from = x + row * cols;
    const int64_t part = cols / 8;
    float least = INFINITY, most = 0, sum = 0;
    for (int64_t i = 0; i < 7; ++i) {
      const float squares = squares_of(from + i * part, part);
      least = fminf(least, squares);
      most = fmaxf(most, squares);
      sum += squares;
    }
    const bool alike = cols >= 30000 && least > 0.85f * most;
    sum = alike ? sum * static_cast<float>(cols) / static_cast<float>(7 * part)
                : sum + squares_of(from + 7 * part, cols - 7 * part);
    y[row] = static_cast<Half>(sqrtf(sum));
  }
}
