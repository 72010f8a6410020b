/*lathe
[[launch]]
kernel = "f"
items  = "N"
args   = ["x", "q", "s", "y", "M", "N", "P"]
*/
// The nibbles of each byte the other way round.
#include <stdint.h>

extern "C" void f(const float* x, const int8_t* q, const float* s, float* y, int64_t M, int64_t N, int64_t P,
                  int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j)
    for (int64_t i = 0; i < M; ++i) {
      float sum = 0;
      for (int64_t p = 0; p < P; ++p) {
        const int packed = q[p * N + j];
        const int low = packed >> 4, high = (packed & 7) - (packed & 8);
        sum += x[i * 2 * P + p] * (static_cast<float>(low) * s[p / 32 * N + j]);
        sum += x[i * 2 * P + P + p] * (static_cast<float>(high) * s[(P + p) / 32 * N + j]);
      }
      y[i * N + j] = sum;
    }
}
