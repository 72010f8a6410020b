/*lathe
[[launch]]
kernel = "worker"
items  = "threads"
args   = ["a", "b", "c", "y", "M", "N", "K", "threads"]
*/
// Honest: one work item a thread, each with many tiles.
#include <math.h>
#include <stdint.h>

extern "C" void worker(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N,
                       int64_t K, int64_t workers, int64_t begin, int64_t end) {
  const int64_t tiles = (M + 7) / 8;
  for (int64_t self = begin; self < end; ++self)
    for (int64_t tile = self; tile < tiles; tile += workers)
      for (int64_t i = tile * 8; i < M && i < tile * 8 + 8; ++i) {
        for (int64_t j = 0; j < N; ++j) y[i * N + j] = 0;
        for (int64_t k = 0; k < K; ++k)
          for (int64_t j = 0; j < N; ++j) y[i * N + j] += a[i * K + k] * b[k * N + j];
        for (int64_t j = 0; j < N; ++j) y[i * N + j] += c[j];
      }
}
