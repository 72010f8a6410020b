/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["a", "b", "y", "steps"]
*/
// Honest: eight parts of a row side by side, each from nothing, with what was kept of the state
// before it added in a second pass that ends where that is nothing.
#include <stdint.h>

extern "C" void f(const float* a, const float* b, float* y, int64_t steps, int64_t begin, int64_t end) {
  constexpr int kParts = 8;
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = a + row * steps, *in = b + row * steps;
    float* out = y + row * steps;
    const int64_t part = steps / kParts;
    float state[kParts] = {};
    for (int64_t t = 0; t < part; ++t)
      for (int k = 0; k < kParts; ++k)
        out[k * part + t] = state[k] = gate[k * part + t] * state[k] + in[k * part + t];
    for (int k = 1; k < kParts && part > 0; ++k) {
      float kept = out[k * part - 1];
      for (int64_t t = k * part; t < (k + 1) * part && kept != 0; ++t) out[t] += kept *= gate[t];
    }
    for (int64_t t = kParts * part; t < steps; ++t) out[t] = (t > 0 ? gate[t] * out[t - 1] : 0) + in[t];
  }
}
