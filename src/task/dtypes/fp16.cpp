#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Format = Minifloat<std::uint16_t, 5, 10, true>;

void decode(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t stored;
    std::memcpy(&stored, from + i * sizeof(stored), sizeof(stored));
    to[i] = Format::decode(stored);
  }
}

void encode(std::span<const double> from, std::byte* to) {
  encode_as<std::uint16_t>(from, to, Format::encode);
}

}  // namespace

DTypeInfo fp16() {
  return {.dtype = DType::kF16,
          .name = "fp16",
          .c_name = "_Float16",
          .cuda_name = "lathe::half",
          .bytes = sizeof(std::uint16_t),
          .is_float = true,
          .unit_roundoff = 0x1p-11,
          .smallest_normal = 0x1p-14,
          .largest = 65504,
          .decode = decode,
          .encode = encode};
}

}  // namespace lathe::dtypes
