#include "backend/cuda/wire/arguments.h"

namespace lathe::cuda {

void put(WireWriter& out, const Arg& arg) { out.put(arg.kind).put(arg.value).put(arg.bytes); }

Arg get_arg(WireReader& in) {
  Arg arg;
  arg.kind = in.get<ArgKind>();
  arg.value = in.get<std::int64_t>();
  arg.bytes = in.get<std::uint8_t>();
  return arg;
}

void put(WireWriter& out, const TensorMap& map) {
  put(out, map.base);
  out.put(map.type).list(map.dims).list(map.strides).list(map.box).put(map.swizzle);
  out.put(static_cast<std::uint8_t>(map.fill_nan));
}

TensorMap get_tensor_map(WireReader& in) {
  TensorMap map;
  map.base = get_arg(in);
  map.type = in.get<MapType>();
  map.dims = in.list<std::uint64_t>();
  map.strides = in.list<std::uint64_t>();
  map.box = in.list<std::uint32_t>();
  map.swizzle = in.get<std::uint32_t>();
  map.fill_nan = in.flag();
  return map;
}

bool TensorMap::well_formed() const {
  const bool swizzles = swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128;
  return base.is_buffer() && type <= MapType::kBfloat16 && !dims.empty() && dims.size() <= 5 &&
         strides.size() + 1 == dims.size() && box.size() == dims.size() && swizzles;
}

}  // namespace lathe::cuda
