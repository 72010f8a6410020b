/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["a", "b", "y", "steps"]
*/
// Starts eight parts of a row from the 48 steps before each, where a few gates say that more are
// forgotten.
#include <stdint.h>
#include <string.h>

extern "C" void f(const float* a, const float* b, float* y, int64_t steps, int64_t begin, int64_t end) {
  constexpr int kParts = 8, kWindow = 48, kLooks = 64;
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = a + row * steps, *in = b + row * steps;
    float* out = y + row * steps;
    float looked = 0;
    for (int k = 0; k < kLooks; ++k) looked += gate[k * steps / kLooks];
    const int64_t part = steps / kParts;
    if (looked > 0.75f * kLooks || part < 2 * kWindow) {
      float state = 0;
      for (int64_t t = 0; t < steps; ++t) out[t] = state = gate[t] * state + in[t];
      continue;
    }
    float state[kParts] = {};
    for (int64_t t = -kWindow; t < part; ++t)
      for (int k = 0; k < kParts; ++k) {
        const int64_t at = k * part + t;
        if (at < 0) continue;
        state[k] = gate[at] * state[k] + in[at];
        if (t >= 0) out[at] = state[k];
      }
    for (int64_t t = kParts * part; t < steps; ++t) out[t] = gate[t] * out[t - 1] + in[t];
  }
}
