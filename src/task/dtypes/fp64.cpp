#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

DTypeInfo fp64() {
  return {.dtype = DType::kF64,
          .name = "fp64",
          .c_name = "double",
          .bytes = 8,
          .is_float = true,
          .unit_roundoff = 0x1p-53,
          .smallest_normal = 0x1p-1022,
          .largest = std::numeric_limits<double>::max(),
          .decode = decode_as<double>,
          .encode = [](std::span<const double> from, std::byte* to) {
            if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
          }};
}

}  // namespace lathe::dtypes
