#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "task/dtype.h"

namespace lathe {

using Shape = std::vector<std::int64_t>;  ///< row-major extents; empty for a scalar

std::int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);

/// Dense row-major data in its own dtype: what kernels read and write.
struct HostTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;

  static HostTensor zeros(DType dtype, Shape shape);
  static HostTensor encode(DType dtype, Shape shape, std::span<const double> values);
  std::vector<double> decode() const;
};

/// A tensor as the reference computes it: fp64 values and, for each element, a bound on the
/// absolute error that a correct kernel may have accumulated so far. An empty `err` means exact.
struct Value {
  Shape shape;
  std::vector<double> data;
  std::vector<double> err;
  double terms = 0;  ///< the largest number of terms summed into one element, since a kernel may start the
                     ///< sum from the next addend

  double error_at(std::size_t i) const { return err.empty() ? 0.0 : err[i]; }
};

}  // namespace lathe
