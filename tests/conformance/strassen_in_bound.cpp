/*lathe
[[scratch]]
name  = "left"
bytes = "M * K * 8"
[[scratch]]
name  = "right"
bytes = "K * N * 8"
[[scratch]]
name  = "products"
bytes = "7 * M * N * 8"
[[launch]]
kernel = "strassen"
items  = "1"
args   = ["a", "b", "c", "y", "left", "right", "products", "M", "N", "K"]
*/
// Honest: one level of Strassen's recursion, in fp64 because its errors are those of the largest
// quarter.
#include <math.h>
#include <stdint.h>

template <class T, class S>
static void multiply(const T* a, const T* b, S* y, int64_t M, int64_t N, int64_t K) {
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) y[i * N + j] = 0;
    for (int64_t k = 0; k < K; ++k)
      for (int64_t j = 0; j < N; ++j) y[i * N + j] += a[i * K + k] * b[k * N + j];
  }
}

/// to = p + sign * q, where p and q are quarters of a matrix whose rows have `stride` elements.
static void combine(const float* p, const float* q, double sign, double* to, int64_t rows, int64_t cols,
                    int64_t stride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      to[i * cols + j] = p[i * stride + j] + (q ? sign * q[i * stride + j] : 0.0);
}

extern "C" void strassen(const float* a, const float* b, const float* c, float* y, double* left,
                         double* right, double* products, int64_t M, int64_t N, int64_t K, int64_t, int64_t) {
  if (M % 2 || N % 2 || K % 2) {
    multiply(a, b, y, M, N, K);
  } else {
    const int64_t m = M / 2, n = N / 2, k = K / 2, size = m * n;
    const float *a11 = a, *a12 = a + k, *a21 = a + m * K, *a22 = a + m * K + k;
    const float *b11 = b, *b12 = b + n, *b21 = b + k * N, *b22 = b + k * N + n;
    const struct {
      const float *p, *q, *r, *s;
      double left_sign, right_sign;
    } factors[7] = {{a11, a22, b11, b22, 1, 1},      {a21, a22, b11, nullptr, 1, 1},
                    {a11, nullptr, b12, b22, 1, -1}, {a22, nullptr, b21, b11, 1, -1},
                    {a11, a12, b22, nullptr, 1, 1},  {a21, a11, b11, b12, -1, 1},
                    {a12, a22, b21, b22, -1, 1}};
    for (int i = 0; i < 7; ++i) {
      combine(factors[i].p, factors[i].q, factors[i].left_sign, left, m, k, K);
      combine(factors[i].r, factors[i].s, factors[i].right_sign, right, k, n, N);
      multiply(left, right, products + i * size, m, n, k);
    }
    const double* p = products;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = i * n + j;
        y[i * N + j] = static_cast<float>(p[at] + p[3 * size + at] - p[4 * size + at] + p[6 * size + at]);
        y[i * N + n + j] = static_cast<float>(p[2 * size + at] + p[4 * size + at]);
        y[(m + i) * N + j] = static_cast<float>(p[size + at] + p[3 * size + at]);
        y[(m + i) * N + n + j] =
            static_cast<float>(p[at] - p[size + at] + p[2 * size + at] + p[5 * size + at]);
      }
  }
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) y[i * N + j] += c[j];
}
