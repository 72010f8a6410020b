/*lathe
[[launch]]
kernel = "f"
args   = ["x", "w", "y", "K"]
*/
// Honest: one long sum in 16 running ones, as vectors have lanes.
#include <stdint.h>

extern "C" void f(const float* x, const float* w, float* y, int64_t K, int64_t, int64_t) {
  float parts[16] = {}, total = 0;
  for (int64_t k = 0; k < K; ++k) parts[k % 16] += x[k] * w[k];
  for (const float part : parts) total += part;
  *y = total;
}
