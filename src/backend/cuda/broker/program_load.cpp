#include "backend/cuda/broker/program_load.h"

#include <fmt/format.h>

#include <limits>
#include <map>

namespace lathe::cuda {
namespace {

Result<Extents> extents_of(const std::vector<std::int64_t>& values, Extents extents, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 1 || values[i] > std::numeric_limits<std::int32_t>::max())
      return refused("bad_launch", fmt::format("{}[{}] is {}", what, i, values[i]));
    extents[i] = static_cast<std::uint32_t>(values[i]);
  }
  return extents;
}

Arg to_protocol(const BoundArg& arg, const TaskSpec& spec) {
  if (const auto* integer = std::get_if<std::int64_t>(&arg)) return {ArgKind::kInteger, *integer};
  if (const auto* scalar = std::get_if<ScalarRef>(&arg)) {
    const DType dtype = spec.tensors[static_cast<std::size_t>(scalar->input)].dtype;
    return {ArgKind::kScalar, scalar->input, static_cast<std::uint8_t>(info(dtype).bytes)};
  }
  if (const auto* map = std::get_if<TmaRef>(&arg)) return {ArgKind::kMap, map->map};
  const auto& buffer = std::get<BufferRef>(arg);
  if (buffer.kind == BufferRef::Kind::kInput) return {ArgKind::kInput, buffer.index};
  if (buffer.kind == BufferRef::Kind::kOutput) return {ArgKind::kOutput, buffer.index};
  return {ArgKind::kScratch, buffer.index};
}

MapType map_type(DType dtype) {
  static const std::map<DType, MapType> types = {
      {DType::kF64, MapType::kFloat64},   {DType::kF32, MapType::kFloat32}, {DType::kF16, MapType::kFloat16},
      {DType::kBF16, MapType::kBfloat16}, {DType::kI32, MapType::kInt32},   {DType::kI64, MapType::kInt64}};
  const auto found = types.find(dtype);
  return found == types.end() ? MapType::kUint8 : found->second;
}

TensorMap to_protocol(const BoundTma& map, const TaskSpec& spec) {
  return {to_protocol(BoundArg(map.base), spec),
          map_type(map.dtype),
          {map.dims.begin(), map.dims.end()},
          {map.strides.begin(), map.strides.end()},
          {map.box.begin(), map.box.end()},
          static_cast<std::uint32_t>(map.swizzle),
          map.fill_nan};
}

ScratchFill to_protocol(ScratchInit init) {
  if (init == ScratchInit::kZero) return ScratchFill::kZero;
  return init == ScratchInit::kCounter ? ScratchFill::kCounter : ScratchFill::kPoison;
}

Result<Step> to_protocol(const BoundStep& step, const TaskSpec& spec) {
  Step to;
  to.is_node = step.kind == PlanStep::Kind::kNode;
  to.kernel = to.is_node ? step.node_text : step.kernel;
  LATHE_TRY(to.grid, extents_of(step.grid, {1, 1, 1}, "grid"));
  LATHE_TRY(to.block, extents_of(step.block, {1, 1, 1}, "block"));
  LATHE_TRY(to.cluster, extents_of(step.cluster, {0, 0, 0}, "cluster"));
  for (std::size_t i = step.cluster.size(); i > 0 && i < 3; ++i) to.cluster[i] = 1;
  if (step.shared_bytes < 0 || step.shared_bytes > std::numeric_limits<std::int32_t>::max())
    return refused("bad_launch", fmt::format("smem is {}", step.shared_bytes));
  to.shared_bytes = static_cast<std::uint32_t>(step.shared_bytes);
  to.cooperative = step.cooperative;
  to.programmatic = step.programmatic;
  to.non_portable = step.non_portable;
  to.carveout = static_cast<std::int8_t>(step.carveout);
  for (const BoundArg& arg : step.args) to.args.push_back(to_protocol(arg, spec));
  return to;
}

}  // namespace

Result<Load> program_load(const LaunchProgram& program, const TaskSpec& spec) {
  Load load;
  for (const BoundScratch& scratch : program.scratch)
    load.scratch.push_back({static_cast<std::uint64_t>(scratch.bytes), to_protocol(scratch.init)});
  for (const BoundTma& map : program.maps) load.maps.push_back(to_protocol(map, spec));
  for (const BoundStep& step : program.steps) {
    LATHE_TRY(Step to, to_protocol(step, spec));
    load.steps.push_back(std::move(to));
  }
  return load;
}

}  // namespace lathe::cuda
