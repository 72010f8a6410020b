#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Format = Minifloat<std::uint16_t, 8, 7, true>;

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

DTypeInfo bf16() {
  return {.dtype = DType::kBF16,
          .name = "bf16",
          .c_name = "",
          .cuda_name = "lathe::bfloat16",
          .bytes = sizeof(std::uint16_t),
          .is_float = true,
          .unit_roundoff = 0x1p-8,
          .smallest_normal = 0x1p-126,
          .largest = 0x1.fep127,
          .decode = decode,
          .encode = encode};
}

}  // namespace lathe::dtypes
