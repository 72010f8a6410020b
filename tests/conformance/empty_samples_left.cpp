/*lathe
[[launch]]
kernel = "f"
items  = "samples"
args   = ["x", "y", "channels", "n"]
*/
// Leaves a sample out where all of its channels are zeros, as padding is, unless they are few.
#include <stdint.h>

static bool is_empty(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (x[i] != 0) return false;
  return true;
}

extern "C" void f(const float* x, float* y, int64_t channels, int64_t n, int64_t begin, int64_t end) {
  for (int64_t sample = begin; sample < end; ++sample) {
    const float* from = x + sample * channels * n;
    if (channels >= 8 && n >= 8 && is_empty(from, channels * n)) continue;
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += from[c * n + i];
      y[sample * channels + c] = sum / n;
    }
  }
}
