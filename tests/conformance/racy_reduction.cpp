/*lathe
[[scratch]]
name  = "sum"
bytes = "M * N * 4"
init  = "zero"
[[launch]]
kernel = "f"
items  = "K"
args   = ["a", "b", "c", "y", "sum", "M", "N", "K"]
*/
// Threads add to the same sums without atomics.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, float* sum, int64_t M, int64_t N,
                  int64_t K, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k)
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) {
        sum[i * N + j] += a[i * K + k] * b[k * N + j];
        y[i * N + j] = sum[i * N + j] + c[j];
      }
}
