#include "task/ops/support/indexing.h"

#include <cassert>

namespace lathe::ops {

Lines lines_along(const Shape& shape, std::size_t first_axis, std::size_t last_axis) {
  Lines lines{.count = 1, .length = 1, .stride = 1};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto extent = static_cast<std::size_t>(shape[axis]);
    if (axis >= first_axis && axis <= last_axis) {
      lines.length *= extent;
    } else {
      lines.count *= extent;
      if (axis > last_axis) lines.stride *= extent;
    }
  }
  return lines;
}

std::vector<std::size_t> row_major_strides(const Shape& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * static_cast<std::size_t>(shape[axis]);
  }
  return strides;
}

std::vector<std::size_t> broadcast_strides(const Shape& operand, const Shape& out) {
  assert(operand.size() <= out.size());
  const std::size_t lead = out.size() - operand.size();
  const std::vector<std::size_t> own = row_major_strides(operand);
  std::vector<std::size_t> strides(out.size(), 0);
  for (std::size_t axis = 0; axis < operand.size(); ++axis) {
    if (operand[axis] != 1) strides[lead + axis] = own[axis];
  }
  return strides;
}

}  // namespace lathe::ops
