/*lathe
[[launch]]
kernel = "f"
items  = "batch"
args   = ["x", "mask", "y", "length", "width"]
*/
// Divides by the number of positions, also where a mask keeps none.
#include <stdint.h>

extern "C" void f(const float* x, const float* mask, float* y, int64_t length, int64_t width, int64_t begin,
                  int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    float count = 0;
    for (int64_t s = 0; s < length; ++s) count += mask[b * length + s];
    for (int64_t d = 0; d < width; ++d) {
      double total = 0;
      for (int64_t s = 0; s < length; ++s) total += x[(b * length + s) * width + d] * mask[b * length + s];
      y[b * width + d] = static_cast<float>(total / count);
    }
  }
}
