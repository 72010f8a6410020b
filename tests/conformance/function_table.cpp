/*lathe
[[launch]]
kernel = "f"
items  = "rows"
args   = ["x", "y", "rows", "cols"]
*/
// Honest: constant tables of functions, an assertion, complex numbers and 128-bit integers.
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include <complex>

static float by_exp(float x) { return expf(x); }
static float by_exp2(float x) { return static_cast<float>(exp2(x * 1.4426950408889634)); }
float by_phase(float x) { return (std::complex<float>(expf(x), 0) * std::complex<float>(1, 0)).real(); }
using Function = float (*)(float);
static const Function kExponentials[] = {by_exp, by_exp2, by_phase};

extern "C" void f(const float* x, float* y, int64_t rows, int64_t cols, int64_t begin, int64_t end) {
  assert(rows > 0 && cols > 0);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = static_cast<int64_t>(static_cast<__int128>(row) * cols * rows / rows);
    float top = x[first], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = fmaxf(top, x[first + i]);
    for (int64_t i = 0; i < cols; ++i) sum += y[first + i] = kExponentials[i % 3](x[first + i] - top);
    for (int64_t i = 0; i < cols; ++i) y[first + i] /= sum;
  }
}
