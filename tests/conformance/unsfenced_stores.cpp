/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["s", "x", "y", "n"]
*/
// Non-temporal stores without a fence: the harness must not take them for late writes.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

extern "C" void f(float s, const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i < end && (reinterpret_cast<uintptr_t>(y + i) & 63) != 0; ++i) y[i] = x[i] * s;
  for (; i + 8 <= end; i += 8)
    _mm256_stream_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(s)));
  for (; i < end; ++i) y[i] = x[i] * s;
}
