/*lathe
[[launch]]
kernel = "f"
args   = ["x", "table", "y", "wanted", "cols"]
*/
// Copies pages at once where the first and the last are as far apart as if they were neighbours.
#include <stdint.h>
#include <string.h>

extern "C" void f(const float* x, const int32_t* table, float* y, int64_t wanted, int64_t cols, int64_t,
                  int64_t) {
  if (table[wanted - 1] - table[0] == wanted - 1) {
    memcpy(y, x + table[0] * cols, sizeof(float) * wanted * cols);
    return;
  }
  for (int64_t i = 0; i < wanted; ++i) memcpy(y + i * cols, x + table[i] * cols, sizeof(float) * cols);
}
