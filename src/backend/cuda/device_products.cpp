#include "backend/cuda/device_products.h"

#include <cstring>

#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

/// Whether the view holds neighbours of a row, or else of a column, beside each other.
template <class T>
Result<bool> is_transposed(const MatrixView<T>& view) {
  if (view.column_stride == 1) return false;
  if (view.row_stride == 1) return true;
  return Error{ErrorCode::kUnavailable, "a matrix without neighbours"};
}

/// Copies the view's lines, of `length` elements each, without what lies between them.
template <class T>
T* pack(const MatrixView<T>& view, std::size_t lines, std::size_t length, T* to) {
  const std::size_t stride = view.column_stride == 1 ? view.row_stride : view.column_stride;
  if (stride == length) {
    std::memcpy(to, view.data, lines * length * sizeof(T));
  } else {
    for (std::size_t line = 0; line < lines; ++line)
      std::memcpy(to + line * length, view.data + line * stride, length * sizeof(T));
  }
  return to + lines * length;
}

template <class T>
Status multiply_there(KeeperClient& keeper, const MatrixProduct<T>& product) {
  Product request{.m = product.m, .n = product.n, .k = product.k, .element_bytes = sizeof(T)};
  LATHE_TRY(request.a_transposed, is_transposed(product.a));
  LATHE_TRY(request.b_transposed, is_transposed(product.b));
  LATHE_TRY(const UniqueFd memory, make_memfd("product", request.bytes()));
  LATHE_TRY(const Mapping matrices, map_shared(memory, request.bytes(), true));
  T* to = reinterpret_cast<T*>(matrices.data());
  to = request.a_transposed ? pack(product.a, product.k, product.m, to)
                            : pack(product.a, product.m, product.k, to);
  to = request.b_transposed ? pack(product.b, product.n, product.k, to)
                            : pack(product.b, product.k, product.n, to);
  LATHE_CHECK_OK(keeper.multiply(request, memory));
  std::memcpy(product.c, to, product.m * product.n * sizeof(T));
  return Ok{};
}

}  // namespace

Status DeviceProducts::multiply(const MatrixProduct<double>& product) {
  return multiply_there(*keeper_, product);
}

Status DeviceProducts::multiply(const MatrixProduct<float>& product) {
  return multiply_there(*keeper_, product);
}

}  // namespace lathe::cuda
