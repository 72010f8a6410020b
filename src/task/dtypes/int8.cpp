#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

DTypeInfo int8() {
  return {.dtype = DType::kI8,
          .name = "int8",
          .c_name = "int8_t",
          .bytes = sizeof(std::int8_t),
          .is_float = false,
          .unit_roundoff = 0,
          .smallest_normal = 1,
          .largest = 127,
          .decode = decode_as<std::int8_t>,
          .encode = [](std::span<const double> from, std::byte* to) {
            encode_as<std::int8_t>(from, to, saturate<std::int8_t>);
          }};
}

}  // namespace lathe::dtypes
