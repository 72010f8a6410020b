#include "backend/cuda/wire/protocol.h"

#include <bit>

#include "sandbox/wire.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kLoadMark = "load";

constexpr std::uint32_t kMaxTrials = 1 << 16;
constexpr std::size_t kMaxSteps = 4096, kMaxArgs = 24;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 37;
constexpr std::size_t kMaxTensors = 256, kMaxText = 4u << 20;
constexpr std::uint64_t kHostAlign = 64;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

/// A region follows from its tensors' sizes, so only these travel.
std::vector<std::uint64_t> sizes_of(const Region& region) {
  std::vector<std::uint64_t> sizes;
  for (const Slot& slot : region.slots) sizes.push_back(slot.bytes);
  return sizes;
}

void put_layout(WireWriter& out, const Layout& layout) {
  out.put(layout.trials);
  out.list(sizes_of(layout.inputs));
  out.list(sizes_of(layout.outputs));
  out.list(layout.order);
  out.list(layout.inout_source);
}

/// The first trial keeps its place.
bool is_order(const std::vector<std::uint32_t>& order, std::uint32_t trials) {
  if (order.empty()) return true;
  if (order.size() != trials || order.front() != 0) return false;
  std::vector<bool> found(trials);
  for (const std::uint32_t trial : order) {
    if (trial >= trials || found[trial]) return false;
    found[trial] = true;
  }
  return true;
}

bool all_below(const std::vector<std::uint64_t>& values, std::uint64_t limit) {
  for (const std::uint64_t value : values)
    if (value >= limit) return false;
  return true;
}

/// An empty layout is fine: most requests have none.
bool get_layout(WireReader& in, Layout& layout) {
  layout.trials = in.get<std::uint32_t>();
  const auto inputs = in.list<std::uint64_t>(), outputs = in.list<std::uint64_t>();
  layout.order = in.list<std::uint32_t>();
  layout.inout_source = in.list<std::int32_t>();
  if (layout.trials > kMaxTrials || !is_order(layout.order, layout.trials) ||
      inputs.size() + outputs.size() > kMaxTensors || !all_below(inputs, kMaxTensorBytes) ||
      !all_below(outputs, kMaxTensorBytes) || layout.inout_source.size() != outputs.size())
    return false;
  layout.inputs = region_of(inputs);
  layout.outputs = region_of(outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int32_t source = layout.inout_source[i];
    if (source < -1 || source >= static_cast<std::int32_t>(inputs.size())) return false;
    if (source >= 0 && inputs[static_cast<std::size_t>(source)] != outputs[i]) return false;
  }
  return true;
}

bool is_possible(const Product& product) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  const auto is_extent = [](std::uint64_t extent) { return extent > 0 && extent <= kMost; };
  const bool plain = product.images == 1 && !product.gathered();
  const bool gathered = is_extent(product.image_elements) && !product.a_transposed && !product.b_transposed;
  const std::uint64_t columns = product.images * product.n;
  return is_extent(product.m) && is_extent(product.n) && is_extent(product.k) && is_extent(product.images) &&
         (plain || gathered) && is_extent(columns) &&
         (product.element_bytes == 4 || product.element_bytes == 8) &&
         all_below(
             {product.m * product.k, plain ? product.k * product.n : product.image_elements * product.images,
              product.m * columns},
             kMaxTensorBytes / product.element_bytes);
}

bool arg_fits(const Arg& arg, const Load& load) {
  const auto below = [&](std::size_t size) {
    return arg.value >= 0 && static_cast<std::uint64_t>(arg.value) < size;
  };
  switch (arg.kind) {
    case ArgKind::kInteger:
      return true;
    case ArgKind::kInput:
      return below(load.layout.inputs.slots.size());
    case ArgKind::kScalar:
      return below(load.layout.inputs.slots.size()) && arg.bytes <= 8 && std::has_single_bit(arg.bytes);
    case ArgKind::kOutput:
      return below(load.layout.outputs.slots.size());
    case ArgKind::kScratch:
      return below(load.scratch.size());
    case ArgKind::kMap:
      return below(load.maps.size());
  }
  return false;
}

void put_step(WireWriter& out, const Step& step) {
  out.put(static_cast<std::uint8_t>(step.is_node))
      .text(step.kernel)
      .put(step.grid)
      .put(step.block)
      .put(step.cluster)
      .put(step.shared_bytes);
  out.put(static_cast<std::uint8_t>(step.cooperative)).put(static_cast<std::uint8_t>(step.programmatic));
  out.put(static_cast<std::uint8_t>(step.non_portable)).put(step.carveout);
  out.put(static_cast<std::uint32_t>(step.args.size()));
  for (const Arg& arg : step.args) put(out, arg);
}

Step get_step(WireReader& in) {
  Step step;
  step.is_node = in.flag();
  step.kernel = in.text(kMaxText);
  step.grid = in.get<Extents>();
  step.block = in.get<Extents>();
  step.cluster = in.get<Extents>();
  step.shared_bytes = in.get<std::uint32_t>();
  step.cooperative = in.flag();
  step.programmatic = in.flag();
  step.non_portable = in.flag();
  step.carveout = in.get<std::int8_t>();
  step.args.resize(in.count(10));
  for (Arg& arg : step.args) arg = get_arg(in);
  return step;
}

Error damaged(const char* what) { return {ErrorCode::kCorrupt, std::string("a damaged frame: ") + what}; }

template <class Message>
Result<Message> finish(const WireReader& in, Message message, const char* what) {
  if (!in.finished()) return damaged(what);
  return message;
}

}  // namespace

Slot make_slot(std::uint64_t tensor_bytes) {
  const std::uint64_t aligned = round_up(tensor_bytes, kAlign);
  const std::uint64_t allocation = round_up(aligned + kRedzoneBytes, kAllocationBytes);
  return {tensor_bytes, allocation, allocation - aligned};
}

Region region_of(const std::vector<std::uint64_t>& tensor_bytes) {
  Region region;
  for (const std::uint64_t bytes : tensor_bytes) {
    region.slots.push_back(make_slot(bytes));
    region.offsets.push_back(region.stride);
    region.stride += round_up(bytes, kHostAlign);
  }
  return region;
}

namespace {

/// Begins an allocation before each slot for which `apart` says so.
template <class Apart>
Allocations allocate(const Region& region, const std::vector<std::uint32_t>& order, std::uint32_t trials,
                     Apart apart) {
  Allocations made;
  const std::size_t slots = region.slots.size();
  made.places.resize(trials * slots);
  for (std::uint32_t place = 0; place < trials; ++place) {
    const std::uint32_t trial = order.empty() ? place : order[place];
    for (std::size_t i = 0; i < slots; ++i) {
      if (apart(place, i)) made.bytes.push_back(0);
      made.places[trial * slots + i] = {static_cast<std::uint32_t>(made.bytes.size() - 1), made.bytes.back()};
      made.bytes.back() += region.slots[i].allocation_bytes;
    }
  }
  return made;
}

}  // namespace

Allocations input_allocations(const Layout& layout) {
  return allocate(layout.inputs, {}, layout.trials,
                  [](std::uint32_t place, std::size_t slot) { return place == 0 || slot == 0; });
}

Allocations output_allocations(const Layout& layout) {
  return allocate(layout.outputs, layout.order, layout.trials, [](std::uint32_t place, std::size_t slot) {
    return place == 0 || (place == 1 && slot == 0);
  });
}

std::string encode(const KeeperRequest& request) {
  WireWriter out;
  out.put(request.verb).put(request.id).put(request.workload).put(request.bank).put(request.poison);
  out.put(static_cast<std::uint32_t>(request.pieces.size()));
  for (const Piece& piece : request.pieces)
    out.put(piece.trial).put(piece.output).put(piece.offset).put(piece.bytes);
  put_layout(out, request.layout);
  const Product& product = request.product;
  out.put(product.m).put(product.n).put(product.k);
  out.put(product.images).put(product.image_elements).put(product.element_bytes);
  out.put(static_cast<std::uint8_t>(product.a_transposed))
      .put(static_cast<std::uint8_t>(product.b_transposed));
  return out.take();
}

Result<KeeperRequest> decode_keeper_request(std::string_view bytes) {
  WireReader in(bytes);
  KeeperRequest request;
  request.verb = in.get<KeeperRequest::Verb>();
  request.id = in.get<std::uint64_t>();
  request.workload = in.get<std::uint64_t>();
  request.bank = in.get<std::uint32_t>();
  request.poison = in.get<std::uint8_t>();
  request.pieces.resize(in.count(24));
  for (Piece& piece : request.pieces) {
    piece.trial = in.get<std::uint32_t>();
    piece.output = in.get<std::uint32_t>();
    piece.offset = in.get<std::uint64_t>();
    piece.bytes = in.get<std::uint64_t>();
  }
  if (!get_layout(in, request.layout)) return damaged("keeper request");
  Product& product = request.product;
  for (std::uint64_t* extent : {&product.m, &product.n, &product.k, &product.images, &product.image_elements})
    *extent = in.get<std::uint64_t>();
  product.element_bytes = in.get<std::uint8_t>();
  product.a_transposed = in.flag();
  product.b_transposed = in.flag();
  const bool multiplies = request.verb == KeeperRequest::Verb::kMultiply;
  if (request.verb > KeeperRequest::Verb::kMultiply || (multiplies && !is_possible(product)))
    return damaged("keeper request");
  return finish(in, std::move(request), "keeper request");
}

std::string encode(const KeeperReply& reply) {
  WireWriter out;
  out.put(reply.id).put(static_cast<std::uint8_t>(reply.ok)).text(reply.text);
  out.list(reply.numbers);
  return out.take();
}

Result<KeeperReply> decode_keeper_reply(std::string_view bytes) {
  WireReader in(bytes);
  KeeperReply reply;
  reply.id = in.get<std::uint64_t>();
  reply.ok = in.flag();
  reply.text = in.text();
  reply.numbers = in.list<double>();
  return finish(in, std::move(reply), "keeper reply");
}

std::string encode(const DeviceFacts& facts) {
  return WireWriter()
      .text(facts.name)
      .text(facts.error)
      .text(facts.uuid)
      .text(facts.pci)
      .put(facts.driver_version)
      .put(facts.compute_major)
      .put(facts.compute_minor)
      .put(facts.multiprocessors)
      .put(facts.shared_optin_bytes)
      .put(facts.l2_bytes)
      .put(facts.memory_bytes)
      .take();
}

Result<DeviceFacts> decode_device_facts(std::string_view bytes) {
  WireReader in(bytes);
  DeviceFacts facts;
  facts.name = in.text();
  facts.error = in.text();
  facts.uuid = in.text();
  facts.pci = in.text();
  facts.driver_version = in.get<std::int32_t>();
  facts.compute_major = in.get<std::int32_t>();
  facts.compute_minor = in.get<std::int32_t>();
  facts.multiprocessors = in.get<std::int64_t>();
  facts.shared_optin_bytes = in.get<std::int64_t>();
  facts.l2_bytes = in.get<std::int64_t>();
  facts.memory_bytes = in.get<std::int64_t>();
  return finish(in, std::move(facts), "device facts");
}

std::string encode(const LoadOrder& order) {
  return std::string(kLoadMark) + WireWriter().put(order.number).list(order.unload).take();
}

bool is_load_order(std::string_view frame) { return frame.starts_with(kLoadMark); }

Result<LoadOrder> decode_load_order(std::string_view bytes) {
  if (!is_load_order(bytes)) return damaged("load order");
  WireReader in(bytes.substr(kLoadMark.size()));
  LoadOrder order;
  order.number = in.get<std::uint32_t>();
  order.unload = in.list<std::uint32_t>();
  return finish(in, std::move(order), "load order");
}

std::string encode(const Load& load) {
  WireWriter out;
  put_layout(out, load.layout);
  out.put(static_cast<std::uint32_t>(load.scratch.size()));
  for (const Scratch& scratch : load.scratch) out.put(scratch.bytes).put(scratch.fill);
  out.put(static_cast<std::uint32_t>(load.steps.size()));
  for (const Step& step : load.steps) put_step(out, step);
  out.put(static_cast<std::uint32_t>(load.maps.size()));
  for (const TensorMap& map : load.maps) put(out, map);
  out.list(load.scalars);
  return out.take();
}

Result<Load> decode_load(std::string_view bytes) {
  WireReader in(bytes);
  Load load;
  if (!get_layout(in, load.layout) || load.layout.trials == 0) return damaged("load layout");
  load.scratch.resize(in.count(9));
  for (Scratch& scratch : load.scratch) {
    scratch.bytes = in.get<std::uint64_t>();
    scratch.fill = in.get<ScratchFill>();
    if (scratch.bytes > (std::uint64_t{4} << 30) || scratch.fill > ScratchFill::kCounter)
      return damaged("load scratch");
  }
  const std::size_t steps = in.count(50);
  if (steps > kMaxSteps) return damaged("load steps");
  for (std::size_t i = 0; i < steps; ++i) load.steps.push_back(get_step(in));
  load.maps.resize(in.count(24));
  for (TensorMap& map : load.maps) map = get_tensor_map(in);
  load.scalars = in.list<std::uint64_t>();
  if (!in.finished() || load.scalars.size() != load.layout.trials * load.layout.inputs.slots.size())
    return damaged("load");
  for (const TensorMap& map : load.maps)
    if (!map.well_formed() || !arg_fits(map.base, load)) return damaged("load map");
  for (const Step& step : load.steps) {
    if (step.carveout < -1 || step.carveout > 100) return damaged("load step");
    if (step.args.size() > (step.is_node ? kMaxTensors : kMaxArgs)) return damaged("load step");
    for (const Arg& arg : step.args)
      if (!arg_fits(arg, load) || (step.is_node && !arg.is_buffer())) return damaged("load argument");
  }
  return load;
}

std::string encode(const BlockReply& reply) {
  return WireWriter()
      .put(reply.code)
      .text(reply.text)
      .put(static_cast<std::uint8_t>(reply.counter_dirty))
      .put(reply.device_ns)
      .take();
}

Result<BlockReply> decode_block_reply(std::string_view bytes) {
  WireReader in(bytes);
  BlockReply reply;
  reply.code = in.get<std::int32_t>();
  reply.text = in.text();
  reply.counter_dirty = in.flag();
  reply.device_ns = in.get<double>();
  return finish(in, std::move(reply), "block reply");
}

}  // namespace lathe::cuda
