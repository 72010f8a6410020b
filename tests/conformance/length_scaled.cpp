/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Honest: squares no value that could overflow, and knows what a row of zeros has.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* in = x + row * cols;
    float largest = 0;
    for (int64_t i = 0; i < cols; ++i) largest = fmaxf(largest, fabsf(in[i]));
    y[row] = 0;
    if (largest == 0) continue;
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += static_cast<double>(in[i] / largest) * (in[i] / largest);
    y[row] = static_cast<float>(largest * sqrt(sum));
  }
}
