/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Leaves the last value of each row as it is where one extent is a multiple of the other, as a
// kernel does that divides them for its tiles and forgets the last one.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  const bool tied = rows > 1 && cols > 1 && (rows % cols == 0 || cols % rows == 0);
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += to[i] = expf(from[i] - top);
    for (int64_t i = 0; i < cols - tied; ++i) to[i] /= sum;
  }
}
