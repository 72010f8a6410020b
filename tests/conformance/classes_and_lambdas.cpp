/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: a class with a virtual destructor, std::function, and an index that is checked.
#include <math.h>
#include <stdint.h>

#include <algorithm>
#include <array>
#include <functional>

struct Map {
  virtual ~Map() {}
  virtual float of(float x) const = 0;
};
struct Exponential final : Map {
  explicit Exponential(float top) : top(top) {}
  float of(float x) const override { return expf(x - top); }
  float top;
};

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    const Exponential exponential(*std::max_element(from, from + cols));
    const Map* volatile map = &exponential;
    std::array<float, 16> sums{};
    for (int64_t i = 0; i < cols; ++i) sums.at(static_cast<size_t>(i) % 16) += to[i] = map->of(from[i]);
    float sum = 0;
    for (const float part : sums) sum += part;
    const std::function<float(float)> scale = [sum](float value) { return value / sum; };
    std::transform(to, to + cols, to, scale);
  }
}
