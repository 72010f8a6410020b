#pragma once

#include <cstddef>

namespace lathe::ops {

/// A matrix read by row and column strides, so that a transpose costs nothing.
template <class T>
struct MatrixView {
  const T* data;
  std::size_t row_stride;
  std::size_t column_stride;
};

/// C[m, n] = A[m, k] B[k, n]; C is row-major with `ldc` elements a row. One thread; AVX2 where there is.
void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<double> a, MatrixView<double> b, double* c,
          std::size_t ldc);
void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<float> a, MatrixView<float> b, float* c,
          std::size_t ldc);

}  // namespace lathe::ops
