/*lathe
[[scratch]]
name  = "memo"
bytes = "1 << 40"
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "memo", "rows", "cols"]
*/
// Asks for a terabyte of scratch.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, float* memo, int64_t rows, int64_t cols, int64_t begin,
                  int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = fmaxf(top, from[i]);
    for (int64_t i = 0; i < cols; ++i) sum += memo[i] = expf(from[i] - top);
    for (int64_t i = 0; i < cols; ++i) to[i] = memo[i] / sum;
  }
}
