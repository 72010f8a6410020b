/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["s", "x", "y", "n"]
*/
// Flushes denormals to zero for speed.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

extern "C" void f(float s, const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * s;
}
