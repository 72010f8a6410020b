/*lathe
[[scratch]]
name  = "sums"
bytes = "M * N * 4"
init  = "zero"
[[launch]]
kernel = "add"
items  = "4"
args   = ["a", "b", "sums", "M", "N", "K"]
[[launch]]
kernel = "add_bias"
items  = "M * N"
args   = ["sums", "c", "y", "N"]
*/
// Honest: the sums in four parts, added atomically.
#include <math.h>
#include <stdint.h>

extern "C" void add_bias(const float* sums, const float* c, float* y, int64_t N, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = sums[i] + c[i % N];
}

static void add_atomically(float* to, float value) {
  auto* word = reinterpret_cast<uint32_t*>(to);
  uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED), next;
  do {
    float sum;
    __builtin_memcpy(&sum, &seen, sizeof sum);
    sum += value;
    __builtin_memcpy(&next, &sum, sizeof next);
  } while (!__atomic_compare_exchange_n(word, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

extern "C" void add(const float* a, const float* b, float* y, int64_t M, int64_t N, int64_t K, int64_t begin,
                    int64_t end) {
  for (int64_t part = begin; part < end; ++part)
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) {
        float sum = 0;
        for (int64_t k = K * part / 4; k < K * (part + 1) / 4; ++k) sum += a[i * K + k] * b[k * N + j];
        add_atomically(y + i * N + j, sum);
      }
}
