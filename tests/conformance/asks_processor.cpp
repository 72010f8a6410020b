/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Asks which processor it runs on, as portable programs do; libgcc answers by a constructor.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  const int64_t step = __builtin_cpu_supports("avx2") ? 8 : 4;
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = fmaxf(top, from[i]);
    for (int64_t i = 0; i < cols; i += step)
      for (int64_t j = i; j < cols && j < i + step; ++j) sum += to[j] = expf(from[j] - top);
    for (int64_t i = 0; i < cols; ++i) to[i] /= sum;
  }
}
