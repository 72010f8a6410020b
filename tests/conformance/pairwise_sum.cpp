/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Honest: sums by halves.
#include <math.h>
#include <stdint.h>

static float dot(const float* a, const float* b, int64_t step, int64_t count) {
  if (count <= 4) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += a[k] * b[k * step];
    return sum;
  }
  const int64_t half = count / 2;
  return dot(a, b, step, half) + dot(a + half, b + half * step, step, count - half);
}

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) y[i * N + j] = dot(a + i * K, b + j, N, K) + c[j];
}
