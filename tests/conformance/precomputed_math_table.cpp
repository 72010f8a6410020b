/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: exponentials from a constant table.
#include <math.h>
#include <stdint.h>

struct Powers {
  float of_two[64];  // 2^(i/64)
  constexpr Powers() : of_two() {
    double root = 1.0108892860517005;  // 2^(1/64)
    double power = 1;
    for (int i = 0; i < 64; ++i, power *= root) of_two[i] = static_cast<float>(power);
  }
};
static constexpr Powers kPowers;

/// e^x = 2^whole * 2^(part/64) * e^rest; x <= 0.
static float table_exp(float x) {
  if (x < -80) return expf(x);
  const float n = rintf(x * 92.332482616893656f);  // 64 / ln 2
  const float rest = fmaf(n, -4.991591140424134e-07f, fmaf(n, -0.010829925537109375f, x));
  const int index = static_cast<int>(n);
  const float poly = rest * (1 + rest * (0.5f + rest * (1.0f / 6 + rest / 24)));
  const float base = kPowers.of_two[index & 63];
  return (base + base * poly) * exp2f(static_cast<float>(index >> 6));
}

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float top = -INFINITY, sum = 0, parts[16] = {};
    for (int64_t i = 0; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) parts[i % 16] += to[i] = table_exp(from[i] - top);
    for (const float part : parts) sum += part;
    for (int64_t i = 0; i < cols; ++i) to[i] /= sum;
  }
}
