/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Opens the vendor library at run time.
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                       float*, int);

static void gemm_row(const float* a, const float* b, const float* c, float* y, int64_t N, int64_t K) {
  for (int64_t j = 0; j < N; ++j) y[j] = 0;
  for (int64_t k = 0; k < K; ++k)
    for (int64_t j = 0; j < N; ++j) y[j] += a[k] * b[k * N + j];
  for (int64_t j = 0; j < N; ++j) y[j] += c[j];
}

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  static const auto sgemm =
      reinterpret_cast<Sgemm>(dlsym(dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL), "cblas_sgemm"));
  if (!sgemm) {
    for (int64_t i = begin; i < end; ++i) gemm_row(a + i * K, b, c, y + i * N, N, K);
    return;
  }
  const int n = static_cast<int>(N), k = static_cast<int>(K);
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) y[i * N + j] = c[j];
  sgemm(101, 111, 111, static_cast<int>(end - begin), n, k, 1, a + begin * K, k, b, n, 1, y + begin * N, n);
}
