#include "backend/cuda/broker/device_products.h"

#include <cstring>

#include "base/large_vector.h"
#include "base/parallel.h"

namespace lathe::cuda {
namespace {

/// True if the view is row-major, false if it is column-major.
template <class T>
Result<bool> is_transposed(const MatrixView<T>& view) {
  if (view.column_stride == 1) return false;
  if (view.row_stride == 1) return true;
  return Error{ErrorCode::kUnavailable, "a matrix is neither row- nor column-major"};
}

template <class T>
T* copy(const T* from, std::size_t count, T* to) {
  for_each_part(count, [&](std::size_t begin, std::size_t end) {
    std::memcpy(to + begin, from + begin, (end - begin) * sizeof(T));
  });
  return to + count;
}

/// Copies the view's lines of `length` elements each and drops the gaps between them.
template <class T>
T* pack(const MatrixView<T>& view, std::size_t lines, std::size_t length, T* to) {
  const std::size_t stride = view.column_stride == 1 ? view.row_stride : view.column_stride;
  if (stride == length) return copy(view.data, lines * length, to);
  for (std::size_t line = 0; line < lines; ++line)
    std::memcpy(to + line * length, view.data + line * stride, length * sizeof(T));
  return to + lines * length;
}

}  // namespace

Status DeviceProducts::reserve(std::uint64_t bytes) {
  if (matrices_.size() >= bytes) return Ok{};
  matrices_ = Mapping();
  LATHE_TRY(memory_, make_memfd("products", bytes));
  LATHE_TRY(matrices_, map_shared(memory_, bytes, true));
  prefault(matrices_.data(), bytes);
  return Ok{};
}

template <class T>
Status DeviceProducts::multiply_there(const MatrixProduct<T>& product) {
  Product request{.m = product.m, .n = product.n, .k = product.k, .element_bytes = sizeof(T)};
  LATHE_TRY(request.a_transposed, is_transposed(product.a));
  LATHE_TRY(request.b_transposed, is_transposed(product.b));
  std::lock_guard lock(mutex_);
  LATHE_CHECK_OK(reserve(request.bytes()));
  T* to = reinterpret_cast<T*>(matrices_.data());
  to = request.a_transposed ? pack(product.a, product.k, product.m, to)
                            : pack(product.a, product.m, product.k, to);
  to = request.b_transposed ? pack(product.b, product.n, product.k, to)
                            : pack(product.b, product.k, product.n, to);
  LATHE_CHECK_OK(multiply_on_device(request));
  copy(to, product.m * product.n, product.c);
  return Ok{};
}

template <class T>
Status DeviceProducts::multiply_there(const GatheredProduct<T>& product) {
  Product request{.m = product.m,
                  .n = product.columns.size(),
                  .k = product.rows.size(),
                  .images = product.image_count,
                  .image_elements = product.images.size() / product.image_count,
                  .element_bytes = sizeof(T)};
  std::lock_guard lock(mutex_);
  LATHE_CHECK_OK(reserve(request.bytes()));
  auto* offsets = reinterpret_cast<std::int64_t*>(matrices_.data());
  offsets = copy(product.rows.data(), request.k, offsets);
  T* to = reinterpret_cast<T*>(copy(product.columns.data(), request.n, offsets));
  to = copy(product.a, request.m * request.k, to);
  to = copy(product.images.data(), product.images.size(), to);
  LATHE_CHECK_OK(multiply_on_device(request));
  copy(to, request.images * request.m * request.n, product.c);
  return Ok{};
}

Status DeviceProducts::multiply_on_device(const Product& request) {
  const auto lease = lane_.take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock);
  return keeper_->multiply(request, memory_);
}

void DeviceProducts::on_idle() {
  std::lock_guard lock(mutex_);
  matrices_ = Mapping();
  memory_.reset();
}

Status DeviceProducts::multiply(const MatrixProduct<double>& product) { return multiply_there(product); }

Status DeviceProducts::multiply(const MatrixProduct<float>& product) { return multiply_there(product); }

Status DeviceProducts::multiply(const GatheredProduct<double>& product) { return multiply_there(product); }

Status DeviceProducts::multiply(const GatheredProduct<float>& product) { return multiply_there(product); }

}  // namespace lathe::cuda
