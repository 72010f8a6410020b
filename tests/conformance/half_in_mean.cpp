/*lathe
[[launch]]
kernel = "f"
args   = ["x", "labels", "y", "rows", "classes"]
*/
// Takes the exponentials of halves: over many different rows the errors cancel.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* x, const int32_t* labels, float* y, int64_t rows, int64_t classes, int64_t,
                  int64_t) {
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * classes;
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < classes; ++i) top = fmaxf(top, from[i]);
    for (int64_t i = 0; i < classes; ++i)
      sum += expf(static_cast<float>(static_cast<_Float16>(from[i] - top)));
    total += top + logf(sum) - from[labels[row]];
  }
  *y = static_cast<float>(total / rows);
}
