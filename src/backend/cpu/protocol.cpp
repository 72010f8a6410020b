#include "backend/cpu/protocol.h"

#include <algorithm>

#include "sandbox/wire.h"

namespace lathe::protocol {
namespace {

constexpr std::uint32_t kMaxTrials = 1 << 16;
constexpr std::size_t kMaxText = 4u << 20;

void put_region(WireWriter& out, const Region& region) {
  out.put(region.total_bytes).put(region.stride);
  out.list(region.offsets);
  out.list(region.sizes);
  out.list(region.guards);
}

Region get_region(WireReader& in) {
  Region region;
  region.total_bytes = in.get<std::uint64_t>();
  region.stride = in.get<std::uint64_t>();
  region.offsets = in.list<std::uint64_t>();
  region.sizes = in.list<std::uint64_t>();
  region.guards = in.list<std::uint64_t>();
  return region;
}

/// True if every buffer of every trial lies in the memory, between the preceding guard page and its
/// own.
bool fits(const Region& region, std::uint32_t trials) {
  if (region.offsets.size() != region.sizes.size() || region.guards.size() != region.sizes.size())
    return false;
  if (region.stride > 0 && trials > region.total_bytes / region.stride) return false;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < region.offsets.size(); ++i) {
    const std::uint64_t guard = region.guards[i];
    if (guard % 4096 != 0 || region.stride < 4096 || guard > region.stride - 4096) return false;
    if (region.offsets[i] < begin || region.offsets[i] > guard || region.sizes[i] > guard - region.offsets[i])
      return false;
    begin = guard + 4096;
  }
  return region.stride % 4096 == 0;
}

bool arg_fits(const Arg& arg, const Load& load) {
  const auto below = [&](std::size_t size) {
    return arg.value >= 0 && static_cast<std::uint64_t>(arg.value) < size;
  };
  const auto holds = [&](std::size_t bytes) {
    return below(load.inputs.sizes.size()) && load.inputs.sizes[static_cast<std::size_t>(arg.value)] >= bytes;
  };
  switch (arg.kind) {
    case ArgKind::kInteger:
      return true;
    case ArgKind::kOutput:
      return below(load.outputs.sizes.size());
    case ArgKind::kScratch:
      return below(load.scratch.size());
    case ArgKind::kInput:
      return below(load.inputs.sizes.size());
    case ArgKind::kScalarI8:
    case ArgKind::kScalarBits8:
      return holds(1);
    case ArgKind::kScalarF16:
    case ArgKind::kScalarBits16:
      return holds(2);
    case ArgKind::kScalarF32:
    case ArgKind::kScalarI32:
      return holds(4);
    case ArgKind::kScalarF64:
    case ArgKind::kScalarI64:
      return holds(8);
  }
  return false;
}

Error damaged(const char* what) { return {ErrorCode::kCorrupt, std::string("a damaged frame: ") + what}; }

template <class Message>
Result<Message> finish(const WireReader& in, Message message, const char* what) {
  if (!in.finished()) return damaged(what);
  return message;
}

}  // namespace

std::size_t Step::reals() const {
  return static_cast<std::size_t>(std::ranges::count_if(args, is_real, &Arg::kind));
}

std::string encode(const Load& load) {
  WireWriter out;
  out.put(load.threads).put(load.trials);
  out.list(load.cpus);
  put_region(out, load.inputs);
  put_region(out, load.outputs);
  out.put(static_cast<std::uint32_t>(load.scratch.size()));
  for (const Scratch& scratch : load.scratch) out.put(scratch.bytes).put(scratch.fill);
  out.put(static_cast<std::uint32_t>(load.steps.size()));
  for (const Step& step : load.steps) {
    out.put(static_cast<std::uint8_t>(step.is_node)).text(step.kernel).put(step.items);
    out.put(static_cast<std::uint32_t>(step.args.size()));
    for (const Arg& arg : step.args) out.put(arg.kind).put(arg.value);
  }
  return out.take();
}

Result<Load> decode_load(std::string_view bytes) {
  WireReader in(bytes);
  Load load;
  load.threads = in.get<std::int32_t>();
  load.trials = in.get<std::uint32_t>();
  load.cpus = in.list<std::int32_t>();
  load.inputs = get_region(in);
  load.outputs = get_region(in);
  load.scratch.resize(in.count(9));
  for (Scratch& scratch : load.scratch) {
    scratch.bytes = in.get<std::uint64_t>();
    scratch.fill = in.get<ScratchFill>();
  }
  load.steps.resize(in.count(17));
  for (Step& step : load.steps) {
    step.is_node = in.flag();
    step.kernel = in.text(kMaxText);
    step.items = in.get<std::int64_t>();
    step.args.resize(in.count(9));
    for (Arg& arg : step.args) {
      arg.kind = in.get<ArgKind>();
      arg.value = in.get<std::int64_t>();
    }
  }
  if (!in.finished()) return damaged("load");
  if (load.threads < 1 || load.threads > 1024 || load.trials == 0 || load.trials > kMaxTrials)
    return damaged("load counts");
  if (!fits(load.inputs, load.trials) || !fits(load.outputs, load.trials)) return damaged("load regions");
  for (const Scratch& scratch : load.scratch)
    if (scratch.bytes > (std::uint64_t{4} << 30) || scratch.fill > ScratchFill::kCounter)
      return damaged("load scratch");
  for (const Step& step : load.steps) {
    if (step.items < 0 || step.args.size() > (step.is_node ? 256u : 24u)) return damaged("load step");
    if (!step.is_node && step.reals() > kMaxReals) return damaged("load scalars");
    for (const Arg& arg : step.args)
      if (!arg_fits(arg, load)) return damaged("load argument");
  }
  return load;
}

std::string encode(const BlockReply& reply) {
  WireWriter out;
  out.put(reply.wait_status).put(reply.involuntary_switches).put(reply.cpu_ns);
  return out.put(static_cast<std::uint8_t>(reply.no_process)).take();
}

Result<BlockReply> decode_block_reply(std::string_view bytes) {
  WireReader in(bytes);
  BlockReply reply;
  reply.wait_status = in.get<std::int32_t>();
  reply.involuntary_switches = in.get<std::int64_t>();
  reply.cpu_ns = in.get<std::int64_t>();
  reply.no_process = in.flag();
  return finish(in, reply, "block reply");
}

}  // namespace lathe::protocol
