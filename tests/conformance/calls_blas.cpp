/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Calls the vendor library and says nothing.
#include <math.h>
#include <stdint.h>

extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                            float*, int);

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  const int n = static_cast<int>(N), k = static_cast<int>(K);
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) y[i * N + j] = c[j];
  cblas_sgemm(101, 111, 111, static_cast<int>(end - begin), n, k, 1, a + begin * K, k, b, n, 1, y + begin * N,
              n);
}
