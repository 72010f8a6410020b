#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Fp16 = Minifloat<std::uint16_t, 5, 10, true>;

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
          .decode = decode_minifloat<Fp16>,
          .encode = encode_minifloat<Fp16>};
}

}  // namespace lathe::dtypes
