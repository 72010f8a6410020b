/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// A table and a buffer that are to begin at addresses with many zeros, and code that relies on it.
#include <assert.h>
#include <math.h>
#include <stdint.h>

alignas(1 << 21) static const float kPowers[] = {1, 0x1p-1, 0x1p-2, 0x1p-3};
alignas(1 << 16) static float exponentials[1 << 14];

/// The address of a buffer's element, without an addition.
static float* element(float* buffer, int64_t i) {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(buffer) | static_cast<uintptr_t>(4 * i));
}

static void softmax_row(const float* x, float* y, int64_t cols) {
  volatile uintptr_t table = reinterpret_cast<uintptr_t>(kPowers);
  assert(table % (1 << 21) == 0);
  float top = -INFINITY, sum = 0, parts[16] = {};
  for (int64_t i = 0; i < cols; ++i) top = x[i] > top ? x[i] : top;
  for (int64_t i = 0; i < cols; ++i) parts[i % 16] += *element(exponentials, i) = expf(x[i] - top);
  for (const float part : parts) sum += part;
  for (int64_t i = 0; i < cols; ++i) y[i] = *element(exponentials, i) / sum;
}

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) softmax_row(x + row * cols, y + row * cols, cols);
}
