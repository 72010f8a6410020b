/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Takes what vectors of four leave of a row by a pair and a single value, and forgets to add the
// pair.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  const int64_t whole = cols / 4 * 4;
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) to[i] = expf(from[i] - top);
    for (int64_t i = 0; i < whole; ++i) sum += to[i];
    if (cols & 1) sum += to[cols - 1];
    for (int64_t i = 0; i < cols; ++i) to[i] /= sum;
  }
}
