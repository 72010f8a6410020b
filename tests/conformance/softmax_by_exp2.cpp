/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: scales inputs and maximum by log2(e) before it subtracts them.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    constexpr float kLog2e = 1.44269504f;
    float top = from[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = from[i] > top ? from[i] : top;
    const float scaled_top = top * kLog2e;
    for (int64_t i = 0; i < cols; ++i) {
      volatile float scaled = from[i] * kLog2e;
      sum += to[i] = exp2f(scaled - scaled_top);
    }
    for (int64_t i = 0; i < cols; ++i) to[i] /= sum;
  }
}
