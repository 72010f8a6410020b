/*lathe
[[launch]]
kernel = "f"
items  = "M"
args   = ["a", "b", "c", "y", "M", "N", "K"]
*/
// Honest: fused multiply-adds in another order.
#include <math.h>
#include <stdint.h>

extern "C" void f(const float* a, const float* b, const float* c, float* y, int64_t M, int64_t N, int64_t K,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float part[7] = {};
      for (int64_t k = K; k-- > 0;) part[k % 7] = fmaf(a[i * K + k], b[k * N + j], part[k % 7]);
      y[i * N + j] = ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + part[3]) + c[j];
    }
}
