/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "q", "cols"]
*/
// Honest: sums in pairs, and the nearest of eight bits through ten, of which one rounding is to
// odd so that two are as good as one.
#include <math.h>
#include <stdint.h>
#include <string.h>

static uint8_t encode(float value) {
  const float held = fminf(value, 448.0f);
  if (held < 0x1p-6f) return static_cast<uint8_t>(nearbyintf(held * 0x1p9f));
  uint32_t bits;
  memcpy(&bits, &held, sizeof bits);
  const uint32_t odd = (bits >> 13) | ((bits & 0x1fff) != 0);
  return static_cast<uint8_t>(((odd + 0x3f + (odd >> 7 & 1)) >> 7) - (120 << 3));
}

static float sum_of(const float* x, int64_t count) {
  if (count <= 8) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += x[i];
    return sum;
  }
  return sum_of(x, count / 2) + sum_of(x + count / 2, count - count / 2);
}

extern "C" void f(const float* x, uint8_t* y, uint8_t* q, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    y[row] = encode(sum_of(x + row * cols, cols) / static_cast<float>(cols));
    for (int64_t i = 0; i < cols; ++i) q[row * cols + i] = encode(x[row * cols + i]);
  }
}
