/*lathe
[[scratch]]
name  = "tops"
bytes = "rows * 4"
[[scratch]]
name  = "sums"
bytes = "rows * 4"
[[launch]]
kernel = "find_tops"
items  = "rows"
args   = ["x", "tops", "cols"]
[[launch]]
kernel = "exponentials"
items  = "rows"
args   = ["x", "y", "tops", "sums", "cols"]
[[launch]]
kernel = "divide"
items  = "rows * cols"
args   = ["y", "sums", "cols"]
*/
// Honest: three kernels that meet in scratch memory.
#include <math.h>
#include <stdint.h>

extern "C" void find_tops(const float* x, float* tops, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    tops[row] = -INFINITY;
    for (int64_t i = 0; i < cols; ++i) tops[row] = fmaxf(tops[row], x[row * cols + i]);
  }
}

extern "C" void exponentials(const float* x, float* y, const float* tops, float* sums, int64_t cols,
                             int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float parts[16] = {};
    for (int64_t i = 0; i < cols; ++i)
      parts[i % 16] += y[row * cols + i] = expf(x[row * cols + i] - tops[row]);
    sums[row] = 0;
    for (const float part : parts) sums[row] += part;
  }
}

extern "C" void divide(float* y, const float* sums, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] /= sums[i / cols];
}
