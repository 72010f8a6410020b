#pragma once

#include <cstddef>

#include "task/products.h"

namespace lathe::ops {

/// C[m, n] = A[m, k] B[k, n]; C is row-major with leading dimension `ldc`. Single-threaded; uses
/// AVX2 if available.
void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<double> a, MatrixView<double> b, double* c,
          std::size_t ldc);
void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<float> a, MatrixView<float> b, float* c,
          std::size_t ldc);

/// Multiplies on the engine if there is one and it pays off; on its failure and otherwise on all
/// processors.
void multiply(const MatrixProduct<double>& product, ProductEngine* engine);
void multiply(const MatrixProduct<float>& product, ProductEngine* engine);

}  // namespace lathe::ops
