#include "backend/cuda/runner/launcher.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace lathe::cuda {
namespace {

constexpr unsigned kNapMicroseconds = 10;

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

Launcher::Launcher(Launcher&& other) noexcept
    : device_(other.device_),
      driver_(other.driver_),
      load_(std::move(other.load_)),
      control_(std::move(other.control_)),
      image_(std::move(other.image_)),
      module_(std::exchange(other.module_, nullptr)),
      functions_(std::move(other.functions_)),
      local_bytes_(other.local_bytes_),
      nodes_(std::move(other.nodes_)),
      inputs_(std::move(other.inputs_)),
      outputs_(std::move(other.outputs_)),
      scratch_(std::move(other.scratch_)),
      maps_(std::move(other.maps_)) {}

Launcher::~Launcher() {
  if (module_) driver_->module_unload(module_);
}

DevicePointer Launcher::scratch_address(std::size_t index) const {
  return scratch_[index].address() + make_slot(load_.scratch[index].bytes).offset;
}

std::uint64_t Launcher::argument(const Arg& arg, std::uint32_t trial) const {
  const auto index = static_cast<std::size_t>(arg.value);
  const auto& inputs = load_.layout.inputs.slots;
  switch (arg.kind) {
    case ArgKind::kInteger:
      return static_cast<std::uint64_t>(arg.value);
    case ArgKind::kScalar:
      return load_.scalars[trial * inputs.size() + index];
    case ArgKind::kInput:
      return inputs_.tensor(trial, index);
    case ArgKind::kOutput:
      return outputs_.tensor(trial, index);
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

Status Launcher::touch(const std::vector<std::uint32_t>& trials) const {
  std::vector<DevicePointer> pages;
  const auto add = [&](const Region& region, const RegionMemory& memory, std::uint32_t trial) {
    for (std::size_t i = 0; i < region.slots.size(); ++i) {
      const Slot& slot = region.slots[i];
      const DevicePointer base = memory.memory(trial, i);
      for (std::uint64_t at = slot.offset / kAllocationBytes * kAllocationBytes; at < slot.end();
           at += kAllocationBytes)
        pages.push_back(base + std::max(at, slot.offset));
    }
  };
  for (const std::uint32_t trial : trials) {
    add(load_.layout.inputs, inputs_, trial);
    add(load_.layout.outputs, outputs_, trial);
  }
  return device_->scrubber.touch(pages, device_->stream);
}

Status Launcher::prepare_memory(std::uint8_t poison, const std::vector<std::uint32_t>& trials) const {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const bool zero = load_.scratch[i].fill != ScratchFill::kPoison;
    LATHE_CHECK_OK(check(
        driver_->set_bytes(scratch_[i].address(), zero ? 0 : poison, scratch_[i].bytes(), device_->stream),
        "cannot fill scratch"));
  }
  LATHE_CHECK_OK(device_->scrubber.run(poison, device_->stream));
  if (local_bytes_ > 0) LATHE_CHECK_OK(device_->scrubber.run_local(local_bytes_, poison, device_->stream));
  LATHE_CHECK_OK(
      check(driver_->set_bytes(device_->flush.address(), poison, device_->flush.bytes(), device_->stream),
            "cannot flush"));
  LATHE_CHECK_OK(
      device_->scrubber.clean_l2(device_->flush.address(), device_->flush.bytes(), device_->stream));
  LATHE_CHECK_OK(touch(trials));  // last: what comes before it needs pages of its own
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
  LATHE_CHECK_OK(check(driver_->stream_synchronize(device_->stream), "cannot prepare the calls"));
  control->recorded.store(1, std::memory_order_release);
  // Others may have the device for milliseconds: their threads need the processors more.
  while (control->prepare.load(std::memory_order_acquire) == 0) ::usleep(kNapMicroseconds);
  LATHE_CHECK_OK(prepare_memory(block.poison, block.trials));
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
