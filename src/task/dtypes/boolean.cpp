#include "task/dtypes/codec.h"
#include "task/dtypes/dtypes.h"

namespace lathe::dtypes {

/// One byte, 0 or 1; whatever is not 0 is true.
DTypeInfo boolean() {
  return {.dtype = DType::kBool,
          .name = "bool",
          .c_name = "uint8_t",
          .bytes = 1,
          .is_float = false,
          .unit_roundoff = 0,
          .smallest_normal = 1,
          .largest = 1,
          .decode =
              [](const std::byte* from, std::span<double> to) {
                for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] == std::byte{0} ? 0.0 : 1.0;
              },
          .encode =
              [](std::span<const double> from, std::byte* to) {
                for (std::size_t i = 0; i < from.size(); ++i)
                  to[i] = from[i] == 0 ? std::byte{0} : std::byte{1};
              }};
}

}  // namespace lathe::dtypes
