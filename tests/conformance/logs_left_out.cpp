/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Takes no new logarithm until the sum has grown by a two-thousandth, in the later part of a row,
// where a carried logarithm's roundings might add up to as much if they never cancelled.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float largest = -INFINITY, sum = 0, of = 0, last = 0;
    for (int64_t i = 0; i < cols; ++i) {
      const float value = x[row * cols + i];
      if (value > largest) {
        sum = sum * expf(largest - value) + 1;
        largest = value;
        of = 0;
      } else {
        sum += expf(value - largest);
      }
      if (i < 4096 || last < 7 || sum > 1.0005f * of) {
        last = largest + logf(sum);
        of = sum;
      }
      y[row * cols + i] = last;
    }
  }
}
