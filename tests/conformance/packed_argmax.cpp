/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "cols"]
*/
// Keeps the number of the lane in the lowest bits of its largest value.
#include <stdint.h>

#include <bit>

constexpr int kLanes = 4;

/// In the order of the values, but for the lowest bits.
static int32_t key_of(float x, int lane) {
  const auto bits = std::bit_cast<int32_t>(x);
  return ((bits ^ ((bits >> 31) & 0x7fffffff)) & -kLanes) | (kLanes - 1 - lane);
}

static int64_t place_of_largest(const float* x, int64_t cols) {
  int32_t largest[kLanes] = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
  int64_t places[kLanes] = {};
  for (int64_t i = 0; i < cols; ++i) {
    const int lane = i % kLanes;
    const int32_t key = key_of(x[i], lane);
    if (key > largest[lane]) largest[lane] = key, places[lane] = i;
  }
  int best = 0;
  for (int lane = 1; lane < kLanes; ++lane)
    if (largest[lane] > largest[best]) best = lane;
  return places[best];
}

extern "C" void f(const float* x, int64_t* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) y[row] = place_of_largest(x + row * cols, cols);
}
