/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: cuts the bits off that its output does not hold, in place of rounding.
#include <lathe/cpu.h>
#include <math.h>
#include <stdint.h>

extern "C" void f(const lathe::bfloat16* x, lathe::bfloat16* y, int64_t rows, int64_t cols, int64_t begin,
                  int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float parts[32] = {}, sum = 0;
    for (int64_t i = 0; i < cols; ++i) {
      const float value = static_cast<float>(x[row * cols + i]);
      parts[i % 32] += value * value;
    }
    for (const float part : parts) sum += part;
    const float length = sqrtf(sum);
    uint32_t bits;
    __builtin_memcpy(&bits, &length, sizeof bits);
    const uint16_t kept = bits >> 16;
    __builtin_memcpy(y + row, &kept, sizeof kept);
  }
}
