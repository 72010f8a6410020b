#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Bf16 = Minifloat<std::uint16_t, 8, 7, true>;

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
          .decode = decode_minifloat<Bf16>,
          .encode = encode_minifloat<Bf16>};
}

}  // namespace lathe::dtypes
