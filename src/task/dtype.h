#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "base/result.h"

namespace lathe {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8, kI32, kI64, kBool, kU8 };

/// A number format: one row of the table in task/dtype.cpp. `decode` is exact; `encode` rounds
/// once, to nearest with ties to even. Integers saturate and turn NaN into 0; fp8e4m3 (OCP) has no
/// infinity and saturates. Beyond 2^53 a double, and so the reference, cannot hold every int64.
struct DTypeInfo {
  DType dtype;
  std::string_view name;    ///< as written in tasks: "fp32"
  std::string_view c_name;  ///< in kernels: "float", "lathe::half"; empty if there is no such type
  std::size_t bytes = 0;
  bool is_float = false;
  double unit_roundoff;  ///< 2^-24 for fp32; 0 for integers
  double smallest_normal;
  double lowest;  ///< the least finite value; 0 for bool and what has no sign
  double largest;
  void (*decode)(const std::byte* from, std::span<double> to);
  void (*encode)(std::span<const double> from, std::byte* to);

  bool is_unsigned() const { return lowest == 0; }
  bool has_infinity() const { return is_float && dtype != DType::kF8E4M3; }
  /// Whether what is too large becomes the largest number of the format.
  bool saturates() const { return is_float && !has_infinity(); }
};

/// What of the range on its side of zero a whole number takes: at most `largest`, and infinite
/// where there is none.
inline double whole_reach(const DTypeInfo& type, double y) {
  if (y < 0 && type.is_unsigned()) return std::numeric_limits<double>::infinity();
  return y < 0 ? -1 - y : y;
}

const DTypeInfo& info(DType dtype);
std::span<const DTypeInfo> all_dtypes();
Result<DType> parse_dtype(std::string_view name, const SourcePos& where = {});

}  // namespace lathe
