#include "backend/cuda/runner/launcher.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace lathe::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr int kCaptureThisThread = 1;
constexpr int kMemoryTimeoutMs = 10'000;
constexpr unsigned kSharedWithoutAsking = 48 << 10;
constexpr int kMaxLocalBytes = 16 << 10;  // of which the driver allots a share to every thread there may be
constexpr int kFirstStickyCode = 700;     // from CUDA_ERROR_ILLEGAL_ADDRESS on, the context is lost

Status candidate_fault(std::string reason, const std::string& detail) {
  return Error{ErrorCode::kInvalid, std::move(reason) + ": " + detail};
}

std::uint64_t allocation_for(std::uint64_t bytes) { return make_slot(bytes).allocation_bytes; }

}  // namespace

std::vector<LaunchAttribute> attributes_of(const Step& step, bool first_of_call) {
  std::vector<LaunchAttribute> attributes;
  if (step.cluster[0] > 0) {
    LaunchAttribute& cluster = attributes.emplace_back();
    cluster.id = LaunchAttributeId::kClusterDimension;
    std::copy(step.cluster.begin(), step.cluster.end(), cluster.cluster);
  }
  const auto flag = [&](bool wanted, LaunchAttributeId id) {
    if (!wanted) return;
    LaunchAttribute& attribute = attributes.emplace_back();
    attribute.id = id;
    attribute.flag = 1;
  };
  flag(step.cooperative, LaunchAttributeId::kCooperative);
  flag(step.programmatic && !first_of_call, LaunchAttributeId::kProgrammaticSerialization);
  return attributes;
}

Result<LaunchDevice> LaunchDevice::open(const std::string& vendor_library) {
  LaunchDevice device;
  if (auto vendor = VendorLibrary::open(vendor_library); vendor.ok()) device.vendor = *std::move(vendor);
  LATHE_TRY(device.driver, cuda::driver());
  LATHE_CHECK_OK(open_device(*device.driver));
  LATHE_CHECK_OK(check(device.driver->stream_create(&device.stream, kNonBlocking), "cannot make a stream"));
  LATHE_CHECK_OK(check(device.driver->event_create(&device.begin, 0), "cannot make an event"));
  LATHE_CHECK_OK(check(device.driver->event_create(&device.end, 0), "cannot make an event"));
  int major = 0;
  device.driver->device_attribute(&major, DeviceAttribute::kComputeMajor, 0);
  device.overlaps_steps = major >= 9;
  int l2_bytes = 0;
  device.driver->device_attribute(&l2_bytes, DeviceAttribute::kL2Bytes, 0);
  LATHE_TRY(device.flush,
            DeviceMemory::create(*device.driver, allocation_for(2 * static_cast<std::uint64_t>(l2_bytes))));
  return device;
}

Result<Launcher> Launcher::load(const LaunchDevice& device, Load load, const std::vector<UniqueFd>& fds,
                                const Channel& channel) {
  if (fds.size() != 3) return Error{ErrorCode::kCorrupt, "a load frame came without its descriptors"};
  Launcher launcher(device, std::move(load));
  LATHE_TRY(launcher.control_, map_shared(fds[0], kPageBytes, true));
  LATHE_CHECK_OK(launcher.take_memory(channel));
  for (const Scratch& scratch : launcher.load_.scratch) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::create(*device.driver, allocation_for(scratch.bytes)));
    launcher.scratch_.push_back(std::move(memory));
  }
  const off_t size = ::lseek(fds[1].get(), 0, SEEK_END);
  if (size > 0) {
    LATHE_TRY(launcher.image_, map_shared(fds[1], static_cast<std::size_t>(size), false));
  }
  if (launcher.image_.size() > 0) LATHE_CHECK_OK(launcher.load_module());
  LATHE_TRY(launcher.scrubber_, Scrubber::load(*device.driver, fds[2]));
  LATHE_CHECK_OK(launcher.prepare_nodes());
  LATHE_CHECK_OK(launcher.encode_maps());
  return launcher;
}

Launcher::Launcher(Launcher&& other) noexcept
    : device_(other.device_),
      driver_(other.driver_),
      load_(std::move(other.load_)),
      control_(std::move(other.control_)),
      image_(std::move(other.image_)),
      module_(std::exchange(other.module_, nullptr)),
      scrubber_(std::move(other.scrubber_)),
      functions_(std::move(other.functions_)),
      nodes_(std::move(other.nodes_)),
      inputs_(std::move(other.inputs_)),
      outputs_(std::move(other.outputs_)),
      scratch_(std::move(other.scratch_)),
      maps_(std::move(other.maps_)) {}

Launcher::~Launcher() {
  if (module_) driver_->module_unload(module_);
}

Status Launcher::take_memory(const Channel& channel) {
  std::vector<UniqueFd> handles;
  const Layout& layout = load_.layout;
  const std::size_t a_trial = layout.inputs.slots.size() + layout.outputs.slots.size();
  while (handles.size() < a_trial * layout.trials) {
    LATHE_TRY(Frame frame, channel.receive(kMemoryTimeoutMs));
    if (frame.fds.empty()) return Error{ErrorCode::kCorrupt, "a memory frame without handles"};
    for (UniqueFd& handle : frame.fds) handles.push_back(std::move(handle));
  }
  auto handle = handles.begin();
  const auto import = [&](const Slot& slot, Access access, std::vector<DeviceMemory>& to) -> Status {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::import(*driver_, *handle++, slot.allocation_bytes, access));
    to.push_back(std::move(memory));
    return Ok{};
  };
  for (std::uint32_t t = 0; t < layout.trials; ++t) {
    for (const Slot& slot : layout.inputs.slots) LATHE_CHECK_OK(import(slot, Access::kRead, inputs_));
    for (const Slot& slot : layout.outputs.slots) LATHE_CHECK_OK(import(slot, Access::kReadWrite, outputs_));
  }
  return Ok{};
}

Status Launcher::load_module() {
  if (module_) driver_->module_unload(std::exchange(module_, nullptr));
  functions_.clear();
  if (const Status loaded =
          check(driver_->module_load(&module_, image_.data()), "the driver refuses the cubin");
      !loaded.ok())
    return candidate_fault("bad_cubin", loaded.error().message);
  for (const Step& step : load_.steps) {
    if (step.is_node) continue;
    Function& function = functions_[step.kernel];
    if (!function && driver_->module_function(&function, module_, step.kernel.c_str()) != 0)
      return candidate_fault("undefined_kernel",
                             "the code defines no extern \"C\" __global__ function '" + step.kernel + "'");
  }
  return set_up_kernels();
}

Status Launcher::prepare_nodes() {
  nodes_.assign(load_.steps.size(), nullptr);
  for (std::size_t i = 0; i < load_.steps.size(); ++i) {
    if (!load_.steps[i].is_node) continue;
    if (!device_->vendor)
      return Error{ErrorCode::kUnavailable, "no_library: liblathe_vendor_cuda.so is missing"};
    LATHE_TRY(nodes_[i], device_->vendor->prepare(load_.steps[i].kernel, 1));
    if (device_->vendor->set_stream(device_->stream) != 0)
      return Error{ErrorCode::kUnavailable, "a library refuses its stream"};
  }
  return Ok{};
}

Status Launcher::encode_maps() {
  for (std::uint32_t trial = 0; trial < load_.layout.trials; ++trial)
    for (const TensorMap& map : load_.maps)
      LATHE_CHECK_OK(encode_map(*driver_, map, argument(map.base, trial), maps_.emplace_back()));
  return Ok{};
}

Status Launcher::set_up_kernels() const {
  for (const Step& step : load_.steps) {
    if (step.is_node) continue;
    const Function function = functions_.at(step.kernel);
    LATHE_CHECK_OK(check_parameters(step, function));
    if (step.non_portable)
      driver_->set_function_attribute(function, FunctionAttribute::kNonPortableCluster, 1);
    if (step.carveout >= 0)
      driver_->set_function_attribute(function, FunctionAttribute::kSharedCarveout, step.carveout);
    int local_bytes = 0;
    driver_->function_attribute(&local_bytes, FunctionAttribute::kLocalBytes, function);
    if (local_bytes > kMaxLocalBytes)
      return candidate_fault("local_memory",
                             fmt::format("'{}' takes {} bytes of local memory a thread, {} are allowed",
                                         step.kernel, local_bytes, kMaxLocalBytes));
    if (step.shared_bytes <= kSharedWithoutAsking) continue;
    const Code code = driver_->set_function_attribute(function, FunctionAttribute::kMaxDynamicShared,
                                                      static_cast<int>(step.shared_bytes));
    if (const Status allowed = check(code, "dynamic shared memory"); !allowed.ok())
      return candidate_fault("smem_overflow",
                             fmt::format("{} bytes: {}", step.shared_bytes, allowed.error().message));
  }
  return Ok{};
}

/// The driver reads as many bytes as the kernel declares: a plan that passes others would hand it garbage.
Status Launcher::check_parameters(const Step& step, Function function) const {
  std::size_t offset = 0, bytes = 0, count = 0;
  while (driver_->parameter_info(function, count, &offset, &bytes) == 0) {
    if (count >= step.args.size()) break;
    const Arg& arg = step.args[count];
    const bool narrow =
        bytes == 4 && arg.kind == ArgKind::kInteger && arg.value == static_cast<std::int32_t>(arg.value);
    const std::size_t passed = arg.kind == ArgKind::kScalar ? arg.bytes
                               : arg.kind == ArgKind::kMap  ? sizeof(EncodedMap)
                                                            : 8;
    if (bytes != passed && !narrow)
      return candidate_fault("bad_arguments",
                             fmt::format("parameter {} of '{}' has {} bytes, the plan passes {}", count + 1,
                                         step.kernel, bytes, passed));
    ++count;
  }
  if (count == step.args.size() && driver_->parameter_info(function, count, &offset, &bytes) != 0)
    return Ok{};
  return candidate_fault("bad_arguments", fmt::format("'{}' takes another number of parameters than the {} "
                                                      "that the plan passes",
                                                      step.kernel, step.args.size()));
}

DevicePointer Launcher::scratch_address(std::size_t index) const {
  return scratch_[index].address() + make_slot(load_.scratch[index].bytes).offset;
}

std::uint64_t Launcher::argument(const Arg& arg, std::uint32_t trial) const {
  const auto index = static_cast<std::size_t>(arg.value);
  const auto& inputs = load_.layout.inputs.slots;
  const auto& outputs = load_.layout.outputs.slots;
  switch (arg.kind) {
    case ArgKind::kInteger:
      return static_cast<std::uint64_t>(arg.value);
    case ArgKind::kScalar:
      return load_.scalars[trial * inputs.size() + index];
    case ArgKind::kInput:
      return inputs_[trial * inputs.size() + index].address() + inputs[index].offset;
    case ArgKind::kOutput:
      return outputs_[trial * outputs.size() + index].address() + outputs[index].offset;
    case ArgKind::kScratch:
      return scratch_address(index);
    case ArgKind::kMap:
      break;
  }
  return 0;
}

/// What the driver is to copy: `value` if the argument fits into it.
void* Launcher::pass(const Arg& arg, std::uint32_t trial, std::uint64_t& value) const {
  if (arg.kind == ArgKind::kMap)
    return const_cast<EncodedMap*>(&maps_[trial * load_.maps.size() + static_cast<std::size_t>(arg.value)]);
  value = argument(arg, trial);
  return &value;
}

Status Launcher::record_calls(std::uint32_t trial) const {
  for (std::size_t i = 0; i < load_.scratch.size(); ++i)
    if (load_.scratch[i].fill == ScratchFill::kZero)
      LATHE_CHECK_OK(check(driver_->set_bytes(scratch_address(i), 0, load_.scratch[i].bytes, device_->stream),
                           "cannot zero"));
  for (std::size_t i = 0; i < load_.steps.size(); ++i) {
    const Step& step = load_.steps[i];
    std::vector<std::uint64_t> values(step.args.size());
    std::vector<void*> pointers;
    if (step.is_node) {
      for (const Arg& arg : step.args) pointers.push_back(reinterpret_cast<void*>(argument(arg, trial)));
      if (const int code = device_->vendor->execute(nodes_[i], pointers.data()); code != 0)
        return Error{ErrorCode::kUnavailable, fmt::format("a library call returned {}", code)};
      continue;
    }
    for (std::size_t a = 0; a < values.size(); ++a) pointers.push_back(pass(step.args[a], trial, values[a]));
    std::vector<LaunchAttribute> attributes = attributes_of(step, i == 0 || !device_->overlaps_steps);
    LaunchConfig config;
    std::copy(step.grid.begin(), step.grid.end(), config.grid);
    std::copy(step.block.begin(), step.block.end(), config.block);
    config.shared_bytes = step.shared_bytes;
    config.stream = device_->stream;
    config.attributes = attributes.data();
    config.attribute_count = static_cast<unsigned>(attributes.size());
    LATHE_CHECK_OK(check(driver_->launch(&config, functions_.at(step.kernel), pointers.data(), nullptr),
                         step.kernel.c_str()));
  }
  return Ok{};
}

Status Launcher::record(const Block& block, Graph& graph) const {
  LATHE_CHECK_OK(check(driver_->capture_begin(device_->stream, kCaptureThisThread), "cannot record"));
  Status recorded = Ok{};
  for (const std::uint32_t trial : block.trials)
    if (recorded.ok()) recorded = record_calls(trial);
  const Code ended = driver_->capture_end(device_->stream, &graph);
  LATHE_CHECK_OK(std::move(recorded));
  return check(ended, "cannot record");
}

Status Launcher::prepare_memory(std::uint8_t poison) const {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const bool zero = load_.scratch[i].fill != ScratchFill::kPoison;
    LATHE_CHECK_OK(check(
        driver_->set_bytes(scratch_[i].address(), zero ? 0 : poison, scratch_[i].bytes(), device_->stream),
        "cannot fill scratch"));
  }
  LATHE_CHECK_OK(scrubber_.run(poison, device_->stream));
  LATHE_CHECK_OK(
      check(driver_->set_bytes(device_->flush.address(), poison, device_->flush.bytes(), device_->stream),
            "cannot flush"));
  return check(driver_->stream_synchronize(device_->stream), "cannot prepare memory");
}

Status Launcher::run(const Block& block, BlockReply& reply) {
  auto* const control = reinterpret_cast<Control*>(control_.data());
  Graph graph = nullptr;
  GraphExec calls = nullptr;
  // Anew for every block: a kernel can write to its module's variables, constants included.
  if (image_.size() > 0) LATHE_CHECK_OK(load_module());
  LATHE_CHECK_OK(record(block, graph));
  LATHE_CHECK_OK(check(driver_->graph_instantiate(&calls, graph, 0), "cannot prepare the calls"));
  LATHE_CHECK_OK(check(driver_->graph_upload(calls, device_->stream), "cannot prepare the calls"));
  LATHE_CHECK_OK(prepare_memory(block.poison));
  control->ready.store(1, std::memory_order_release);
  while (control->go.load(std::memory_order_acquire) == 0) _mm_pause();
  driver_->event_record(device_->begin, device_->stream);
  const Code launched = driver_->graph_launch(calls, device_->stream);
  driver_->event_record(device_->end, device_->stream);
  const Code finished = driver_->stream_synchronize(device_->stream);
  control->done.store(1, std::memory_order_release);
  LATHE_CHECK_OK(check(launched != 0 ? launched : finished, "a kernel failed"));
  float ms = 0;
  LATHE_CHECK_OK(check(driver_->event_elapsed_ms(&ms, device_->begin, device_->end), "a kernel failed"));
  reply.device_ns = 1e6 * static_cast<double>(ms);
  LATHE_TRY(reply.counter_dirty, counters_are_dirty());
  driver_->graph_exec_destroy(calls);
  driver_->graph_destroy(graph);
  return Ok{};
}

Result<bool> Launcher::counters_are_dirty() const {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    if (load_.scratch[i].fill != ScratchFill::kCounter) continue;
    std::vector<char> bytes(load_.scratch[i].bytes);
    LATHE_CHECK_OK(check(driver_->copy_to_host(bytes.data(), scratch_address(i), bytes.size()),
                         "cannot read a counter"));
    if (std::any_of(bytes.begin(), bytes.end(), [](char byte) { return byte != 0; })) return true;
  }
  return false;
}

bool Launcher::serve_block(const Channel& channel, std::string_view frame) {
  const auto block = decode_block(frame);
  if (!block.ok()) return false;
  for (const std::uint32_t trial : block->trials)
    if (trial >= load_.layout.trials) return false;
  BlockReply reply;
  const Status done = run(*block, reply);
  const Code state = driver_->context_synchronize();
  if (!done.ok()) reply.text = done.error().message;
  reply.code = done.ok() ? 0 : state != 0 ? state : 1;
  return channel.send(encode(reply)).ok() && state < kFirstStickyCode;
}

}  // namespace lathe::cuda
