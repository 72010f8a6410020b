/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Brings the machine code of an installed library into its own object.
#include <math.h>
#include <stdint.h>

static void gemm_row(const float* a, const float* b, const float* c, float* y, int64_t N, int64_t K) {
  for (int64_t j = 0; j < N; ++j) y[j] = 0;
  for (int64_t k = 0; k < K; ++k)
    for (int64_t j = 0; j < N; ++j) y[j] += a[k] * b[k * N + j];
  for (int64_t j = 0; j < N; ++j) y[j] += c[j];
}

asm(".pushsection .text\n.balign 4096\n.global borrowed\nborrowed: .incbin "
    "\"/usr/lib/x86_64-linux-gnu/libm.so.6\"\n.popsection");
extern "C" const char borrowed[];

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) gemm_row(a + i * K, b, c, y + i * N, N, K);
  static volatile char sink;
  sink = borrowed[begin];
}
