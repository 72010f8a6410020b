#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Format = Minifloat<std::uint8_t, 4, 3, false>;

void decode(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint8_t stored;
    std::memcpy(&stored, from + i * sizeof(stored), sizeof(stored));
    to[i] = Format::decode(stored);
  }
}

void encode(std::span<const double> from, std::byte* to) {
  encode_as<std::uint8_t>(from, to, Format::encode);
}

}  // namespace

/// OCP 8-bit E4M3: no infinities, one NaN, largest 448.
DTypeInfo fp8e4m3() {
  return {.dtype = DType::kF8E4M3,
          .name = "fp8e4m3",
          .c_name = "",
          .bytes = sizeof(std::uint8_t),
          .is_float = true,
          .unit_roundoff = 0x1p-4,
          .smallest_normal = 0x1p-6,
          .largest = 448,
          .decode = decode,
          .encode = encode};
}

}  // namespace lathe::dtypes
