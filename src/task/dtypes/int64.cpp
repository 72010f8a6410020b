#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

/// Beyond 2^53 a double, and so the reference, no longer holds every value.
DTypeInfo int64() {
  return {.dtype = DType::kI64,
          .name = "int64",
          .c_name = "int64_t",
          .bytes = sizeof(std::int64_t),
          .is_float = false,
          .unit_roundoff = 0,
          .smallest_normal = 1,
          .largest = 0x1p63,
          .decode = decode_as<std::int64_t>,
          .encode = [](std::span<const double> from, std::byte* to) {
            encode_as<std::int64_t>(from, to, saturate<std::int64_t>);
          }};
}

}  // namespace lathe::dtypes
