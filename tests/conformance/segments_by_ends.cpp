/*lathe
[[launch]]
kernel = "f"
items  = "segments"
args   = ["x", "at", "y", "rows", "segments", "cols"]
*/
// Takes segments for equally long where the first and the last are.
#include <stdint.h>

extern "C" void f(const float* x, const int32_t* at, float* y, int64_t rows, int64_t segments, int64_t cols,
                  int64_t begin, int64_t end) {
  const int64_t length = rows / segments;
  const bool even = rows % segments == 0 && at[1] == length && at[segments - 1] == rows - length;
  for (int64_t segment = begin; segment < end; ++segment) {
    const int64_t first = even ? segment * length : at[segment];
    const int64_t last = even ? first + length : at[segment + 1];
    for (int64_t col = 0; col < cols; ++col) {
      double sum = 0;
      for (int64_t row = first; row < last; ++row) sum += x[row * cols + col];
      y[segment * cols + col] = static_cast<float>(sum);
    }
  }
}
