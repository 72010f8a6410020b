#pragma once

#include <algorithm>
#include <numeric>

#include "task/op.h"

namespace lathe::ops {

/// Elements of an operand each of which serves `total / size` elements of the result, of which
/// `wanted` are wanted.
inline std::int64_t spread_over(std::int64_t wanted, std::int64_t total, std::int64_t size) {
  const std::int64_t served = (total + size - 1) / size;
  return std::min(size, (std::max<std::int64_t>(0, wanted) + served - 1) / served);
}

/// Of `all` elements that a whole result needs, where an element of the result reads `each` at most
/// and `missing` of them are not wanted.
inline std::int64_t without(std::int64_t all, std::int64_t missing, std::int64_t each) {
  return missing > all / each ? 0 : all - missing * each;
}

inline bool any_constant(const Demand& demand) {
  return std::ranges::any_of(demand.constants, [](std::int64_t count) { return count > 0; });
}

}  // namespace lathe::ops
