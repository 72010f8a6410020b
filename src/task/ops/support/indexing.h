#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "task/tensor.h"

namespace lathe::ops {

/// A view of a tensor as lines along one axis: element i of line r is at start(r) + i * stride.
struct Lines {
  std::size_t count = 0;
  std::size_t length = 0;
  std::size_t stride = 0;

  std::size_t start(std::size_t line) const { return line / stride * length * stride + line % stride; }
};
/// The lines along [first_axis, last_axis], taken as one axis.
Lines lines_along(const Shape& shape, std::size_t first_axis, std::size_t last_axis);
inline Lines lines_along(const Shape& shape, std::size_t axis) { return lines_along(shape, axis, axis); }

/// Whether an integer tensor's value selects one of `extent` elements.
inline bool is_place(double index, std::size_t extent) {
  return index >= 0 && index < static_cast<double>(extent);
}

std::vector<std::size_t> row_major_strides(const Shape& shape);
/// The strides for reading an operand broadcast over `out`: 0 along broadcast axes (numpy's rules).
std::vector<std::size_t> broadcast_strides(const Shape& operand, const Shape& out);

/// The innermost loop of a broadcast: element i of operand k is at `in[k] + i * step[k]`.
template <std::size_t kOperands>
struct BroadcastRow {
  std::size_t out = 0;
  std::size_t length = 0;
  std::array<std::size_t, kOperands> in{};
  std::array<std::size_t, kOperands> step{};
};

/// Calls visit(const BroadcastRow<n>&) for every row of `out`, in order.
template <std::size_t kOperands, class Visit>
void for_each_row(const Shape& out, const std::array<Shape, kOperands>& operands, Visit visit) {
  std::array<std::vector<std::size_t>, kOperands> strides;
  BroadcastRow<kOperands> row;
  row.length = out.empty() ? 1 : static_cast<std::size_t>(out.back());
  for (std::size_t k = 0; k < kOperands; ++k) {
    strides[k] = broadcast_strides(operands[k], out);
    row.step[k] = out.empty() ? 0 : strides[k].back();
  }
  const auto total = static_cast<std::size_t>(element_count(out));
  std::vector<std::int64_t> index(out.size(), 0);
  for (row.out = 0; row.out < total; row.out += row.length) {
    visit(static_cast<const BroadcastRow<kOperands>&>(row));
    for (std::size_t axis = out.size(); axis-- > 1;) {
      const std::size_t outer = axis - 1;
      for (std::size_t k = 0; k < kOperands; ++k) row.in[k] += strides[k][outer];
      if (++index[outer] < out[outer]) break;
      for (std::size_t k = 0; k < kOperands; ++k) {
        row.in[k] -= strides[k][outer] * static_cast<std::size_t>(out[outer]);
      }
      index[outer] = 0;
    }
  }
}

}  // namespace lathe::ops
