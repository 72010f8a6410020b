#include "task/dtypes/dtypes.h"
#include "task/dtypes/minifloat.h"

namespace lathe::dtypes {
namespace {

using Fp8E4M3 = Minifloat<std::uint8_t, 4, 3, false>;

}  // namespace

/// OCP 8-bit E4M3: no infinities, one NaN, largest 448.
DTypeInfo fp8e4m3() {
  return {.dtype = DType::kF8E4M3,
          .name = "fp8e4m3",
          .c_name = "",
          .bytes = sizeof(std::uint8_t),
          .is_float = true,
          .unit_roundoff = 0x1p-4,
          .smallest_normal = 0x1p-6,
          .largest = 448,
          .decode = decode_minifloat<Fp8E4M3>,
          .encode = encode_minifloat<Fp8E4M3>};
}

}  // namespace lathe::dtypes
