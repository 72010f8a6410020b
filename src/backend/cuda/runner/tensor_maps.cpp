#include "backend/cuda/runner/tensor_maps.h"

#include <array>
#include <bit>

namespace lathe::cuda {
namespace {

constexpr int kNoInterleave = 0, kPromoteTo128Bytes = 2;

/// The driver encodes 0, 32, 64 and 128 bytes as 0, 1, 2 and 3.
int swizzle_code(std::uint32_t bytes) { return bytes == 0 ? 0 : std::countr_zero(bytes) - 4; }

}  // namespace

Status encode_map(const Driver& driver, const TensorMap& map, DevicePointer address, EncodedMap& encoded) {
  const std::array<std::uint32_t, 5> every_element = {1, 1, 1, 1, 1};
  const Code code =
      driver.tensor_map(&encoded, static_cast<int>(map.type), static_cast<std::uint32_t>(map.dims.size()),
                        address, map.dims.data(), map.strides.data(), map.box.data(), every_element.data(),
                        kNoInterleave, swizzle_code(map.swizzle), kPromoteTo128Bytes, map.fill_nan ? 1 : 0);
  if (const Status made = check(code, "the driver refuses a tensor map"); !made.ok())
    return refused("bad_tma", made.error().message, "maps need a GPU of compute capability 9.0 or later");
  return Ok{};
}

}  // namespace lathe::cuda
