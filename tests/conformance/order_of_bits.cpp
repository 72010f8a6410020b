/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Honest: compares bits, those of zero where there is any zero.
#include <stdint.h>

#include <bit>

static int32_t key_of(float x) {
  const auto bits = std::bit_cast<int32_t>(x == 0 ? 0 : x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

extern "C" void f(const float* x, int64_t* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    int64_t best = 0;
    for (int64_t i = 1; i < cols; ++i)
      if (key_of(x[row * cols + i]) > key_of(x[row * cols + best])) best = i;
    y[row] = best;
  }
}
