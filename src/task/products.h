#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace lathe {

/// A strided view of a matrix; transposing swaps the strides.
template <class T>
struct MatrixView {
  const T* data;
  std::size_t row_stride;
  std::size_t column_stride;
};

/// C[m, n] = A[m, k] B[k, n]; C is row-major.
template <class T>
struct MatrixProduct {
  std::size_t m, n, k;
  MatrixView<T> a, b;
  T* c;
};

/// A convolution of a padded input as a matrix product with an implicit operand: for each image,
/// C[m, n] = A[m, k] B[k, n], where B[p, j] is the image's element rows[p] + columns[j]. A and C
/// are row-major; images are contiguous, and so are their parts of C.
template <class T>
struct GatheredProduct {
  std::size_t m;
  const T* a;
  std::span<const T> images;
  std::size_t image_count;
  std::span<const std::int64_t> rows, columns;  ///< k and n of them
  T* c;
};

/// Multiplies the large matrices of references faster than this machine's processors would (on a
/// GPU). Thread-safe.
class ProductEngine {
 public:
  virtual ~ProductEngine() = default;
  /// Accumulates in T, in any order. After an error C is undefined.
  virtual Status multiply(const MatrixProduct<double>& product) = 0;
  virtual Status multiply(const MatrixProduct<float>& product) = 0;
  virtual Status multiply(const GatheredProduct<double>& product) = 0;
  virtual Status multiply(const GatheredProduct<float>& product) = 0;
};

/// Whether an engine pays off: transferring `elements` to it and back takes less time than doing
/// the multiplications on this machine's threads.
inline bool worth_transferring(double multiplications, double elements, std::size_t threads) {
  return multiplications >= 0x1p30 && multiplications >= 12.0 * static_cast<double>(threads) * elements;
}

}  // namespace lathe
