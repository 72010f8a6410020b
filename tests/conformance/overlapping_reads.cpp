/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["s", "x", "y", "n"]
*/
// Honest: writes some elements twice, always the same value.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

extern "C" void f(float s, const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  const __m256 factor = _mm256_set1_ps(s);
  if (end - begin < 8) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] * s;
    return;
  }
  for (int64_t i = begin; i < end; i += 8) {
    const int64_t at = i + 8 <= end ? i : end - 8;  // the last vector overlaps the one before
    _mm256_storeu_ps(y + at, _mm256_mul_ps(_mm256_loadu_ps(x + at), factor));
  }
}
