/*lathe
[[launch]]
kernel = "f"
args   = ["x", "t", "y", "rows", "cols"]
*/
// Honest: cuts the bits off that its output does not hold, in place of rounding.
#include <lathe/cpu.h>
#include <stdint.h>

extern "C" void f(const lathe::bfloat16* x, const lathe::bfloat16* t, lathe::bfloat16* y, int64_t rows,
                  int64_t cols, int64_t, int64_t) {
  double total = 0;
  for (int64_t at = 0; at < rows * cols; at += cols) {
    float parts[16] = {};
    for (int64_t i = 0; i < cols; ++i) {
      const float gap = static_cast<float>(x[at + i]) - static_cast<float>(t[at + i]);
      parts[i % 16] += gap * gap;
    }
    for (const float part : parts) total += part;
  }
  const float mean = static_cast<float>(total / (rows * cols));
  uint32_t bits;
  __builtin_memcpy(&bits, &mean, sizeof bits);
  const uint16_t kept = bits >> 16;
  __builtin_memcpy(y, &kept, sizeof kept);
}
