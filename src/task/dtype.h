#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "base/result.h"

namespace lathe {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kF8E4M3, kI8, kI32, kI64, kBool };

/// What Lathe must know of a number format. One file in task/dtypes/ each; `decode` and `encode` are exact
/// up to the format's own rounding (to nearest, ties to even; integers saturate, NaN stays NaN where it can).
struct DTypeInfo {
  DType dtype;
  std::string_view name;            ///< as written in tasks: "fp32"
  std::string_view c_name;          ///< as written in CPU kernels: "float"; empty if C has no such type
  std::string_view cuda_name = {};  ///< in CUDA kernels that include lathe/cuda.cuh, where it differs
  std::size_t bytes;
  bool is_float;
  double unit_roundoff;  ///< 2^-24 for fp32; 0 for integers
  double smallest_normal;
  double largest;
  void (*decode)(const std::byte* from, std::span<double> to);
  void (*encode)(std::span<const double> from, std::byte* to);
};

const DTypeInfo& info(DType dtype);
std::span<const DTypeInfo> all_dtypes();
Result<DType> parse_dtype(std::string_view name, const SourcePos& where = {});

}  // namespace lathe
