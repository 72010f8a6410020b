/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: a static buffer of moderate size, and a table that the first row of each call fills.
#include <math.h>
#include <stdint.h>

struct Powers {
  float of_two[64];
  Powers() {
    for (int i = 0; i < 64; ++i) of_two[i] = exp2f(static_cast<float>(i) / 64);
  }
};

/// e^x = 2^(whole + step / 64) * e^rest.
static float exp_by_table(float x) {
  static const Powers powers;
  if (x < -80) return expf(x);
  const float steps = rintf(x * 92.33248f);
  const float rest = fmaf(steps, 2.97602238e-11f, fmaf(steps, -0.01083042473f, x));
  const int index = static_cast<int>(steps);
  const int whole = index >= 0 ? index / 64 : -((63 - index) / 64);
  return ldexpf(powers.of_two[index - 64 * whole] * (1 + rest * (1 + rest * (0.5f + rest * (1.0f / 6)))),
                whole);
}

static float work[64 * 1024];

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = cols <= 64 * 1024 ? work : y + row * cols;
    float top = -INFINITY, sums[16] = {}, sum = 0;
    for (int64_t i = 0; i < cols; ++i) top = from[i] > top ? from[i] : top;
    for (int64_t i = 0; i < cols; ++i) sums[i % 16] += to[i] = exp_by_table(from[i] - top);
    for (const float part : sums) sum += part;
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = to[i] / sum;
  }
}
