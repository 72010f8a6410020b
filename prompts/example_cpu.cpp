/*lathe
[[launch]]
kernel = "centre_rows"
items = "rows"
args = ["x", "y", "cols"]
*/
#include <lathe/cpu.h>

extern "C" void centre_rows(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* in = x + row * cols;
    float* out = y + row * cols;
    float sums[16] = {};
    int64_t i = 0;
    for (; i + 16 <= cols; i += 16)
      for (int64_t j = 0; j < 16; ++j) sums[j] += in[i + j];
    float sum = 0;
    for (; i < cols; ++i) sum += in[i];
    for (int64_t j = 0; j < 16; ++j) sum += sums[j];
    const float mean = sum / static_cast<float>(cols);
    for (i = 0; i < cols; ++i) out[i] = in[i] - mean;
  }
}
