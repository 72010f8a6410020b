/*lathe
[[scratch]]
name  = "parts"
bytes = "4 * M * N * 4"
[[launch]]
kernel = "partial"
items  = "4"
args   = ["a", "b", "parts", "M", "N", "K"]
[[launch]]
kernel = "reduce"
items  = "M * N"
args   = ["parts", "c", "y", "M", "N"]
*/
// Honest: the sums in four parts, added by a second kernel.
#include <math.h>
#include <stdint.h>

extern "C" void partial(const float* a, const float* b, float* parts, int64_t M, int64_t N, int64_t K,
                        int64_t begin, int64_t end) {
  for (int64_t part = begin; part < end; ++part) {
    float* y = parts + part * M * N;
    for (int64_t i = 0; i < M; ++i) {
      for (int64_t j = 0; j < N; ++j) y[i * N + j] = 0;
      for (int64_t k = K * part / 4; k < K * (part + 1) / 4; ++k)
        for (int64_t j = 0; j < N; ++j) y[i * N + j] += a[i * K + k] * b[k * N + j];
    }
  }
}

extern "C" void reduce(const float* parts, const float* c, float* y, int64_t M, int64_t N, int64_t begin,
                       int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    y[i] = (parts[i] + parts[M * N + i]) + (parts[2 * M * N + i] + parts[3 * M * N + i]) + c[i % N];
}
