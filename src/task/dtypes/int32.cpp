#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

DTypeInfo int32() {
  return {.dtype = DType::kI32,
          .name = "int32",
          .c_name = "int32_t",
          .bytes = sizeof(std::int32_t),
          .is_float = false,
          .unit_roundoff = 0,
          .smallest_normal = 1,
          .largest = 2147483647,
          .decode = decode_as<std::int32_t>,
          .encode = [](std::span<const double> from, std::byte* to) {
            encode_as<std::int32_t>(from, to, saturate<std::int32_t>);
          }};
}

}  // namespace lathe::dtypes
