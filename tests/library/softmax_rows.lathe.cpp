/*lathe
requires = "cols <= 65536"
[[launch]]
kernel = "softmax_rows"
items  = "rows"
args   = ["x", "y", "cols"]
*/
#include <lathe/cpu.h>

using lathe::f32v;

extern "C" void softmax_rows(const float* x, float* y, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    const int64_t whole = cols / lathe::kLanes * lathe::kLanes;
    const auto tail = lathe::first_lanes(cols - whole);
    f32v top = lathe::load(from + whole, tail, -lathe::kInfinity);
    for (int64_t i = 0; i < whole; i += lathe::kLanes) top = lathe::max(top, lathe::load(from + i));
    const f32v shift(lathe::reduce_max(top));
    f32v sum(0.0f);
    for (int64_t i = 0; i < whole; i += lathe::kLanes) {
      const f32v e = lathe::exp(lathe::load(from + i) - shift);
      sum = sum + e;
      lathe::store(to + i, e);
    }
    const f32v e = lathe::exp(lathe::load(from + whole, tail, -lathe::kInfinity) - shift);
    lathe::store(to + whole, e, tail);
    const f32v scale(1.0f / lathe::reduce_add(sum + e));
    for (int64_t i = 0; i < whole; i += lathe::kLanes) lathe::store(to + i, lathe::load(to + i) * scale);
    lathe::store(to + whole, e * scale, tail);
  }
}
