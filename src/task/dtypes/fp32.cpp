#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

DTypeInfo fp32() {
  return {.dtype = DType::kF32,
          .name = "fp32",
          .c_name = "float",
          .bytes = 4,
          .is_float = true,
          .unit_roundoff = 0x1p-24,
          .smallest_normal = 0x1p-126,
          .largest = std::numeric_limits<float>::max(),
          .decode = decode_as<float>,
          .encode = [](std::span<const double> from, std::byte* to) {
            encode_as<float>(from, to, [](double value) { return static_cast<float>(value); });
          }};
}

}  // namespace lathe::dtypes
