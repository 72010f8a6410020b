#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/wire.h"

namespace lathe::cuda {

enum class ArgKind : std::uint8_t { kInput, kOutput, kScratch, kInteger, kScalar, kMap };
struct Arg {
  ArgKind kind = ArgKind::kInteger;
  std::int64_t value = 0;  ///< an index, or the integer itself
  std::uint8_t bytes = 8;  ///< kScalar

  bool is_buffer() const { return kind <= ArgKind::kScratch; }
};
void put(WireWriter& out, const Arg& arg);
Arg get_arg(WireReader& in);

/// Values of the driver's CUtensorMapDataType.
enum class MapType : std::uint8_t {
  kUint8 = 0,
  kInt32 = 3,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9
};

/// A tensor map without its address, which differs from trial to trial. Lists start with the
/// innermost dim. The broker has validated it against the hardware's rules and the buffer's size.
struct TensorMap {
  Arg base;
  MapType type = MapType::kFloat32;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> strides;  ///< bytes, one fewer than dims
  std::vector<std::uint32_t> box;
  std::uint32_t swizzle = 0;  ///< bytes
  bool fill_nan = false;

  bool well_formed() const;
};
void put(WireWriter& out, const TensorMap& map);
TensorMap get_tensor_map(WireReader& in);

}  // namespace lathe::cuda
