#include "backend/cuda/runner/keeper.h"

#include <algorithm>

#include "backend/cuda/runner/measure.h"

namespace lathe::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;

Result<DeviceFacts> facts_of(const Driver& driver) {
  DeviceFacts facts;
  int device = 0;
  LATHE_CHECK_OK(check(driver.device_get(&device, 0), "cannot find a GPU"));
  char name[256] = {};
  std::size_t memory = 0;
  LATHE_CHECK_OK(check(driver.device_name(name, sizeof name - 1, device), "cannot name the GPU"));
  LATHE_CHECK_OK(check(driver.device_memory(&memory, device), "cannot size the GPU's memory"));
  LATHE_CHECK_OK(check(driver.version(&facts.driver_version), "cannot ask the driver's version"));
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.device_attribute(&value, which, device);
    return value;
  };
  facts.name = name;
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  facts.compute_major = attribute(DeviceAttribute::kComputeMajor);
  facts.compute_minor = attribute(DeviceAttribute::kComputeMinor);
  facts.multiprocessors = attribute(DeviceAttribute::kMultiprocessors);
  facts.shared_optin_bytes = attribute(DeviceAttribute::kSharedOptIn);
  facts.l2_bytes = attribute(DeviceAttribute::kL2Bytes);
  return facts;
}

}  // namespace

Result<Keeper> Keeper::open(const Driver& driver) {
  LATHE_CHECK_OK(open_device(driver));
  Keeper keeper(driver);
  LATHE_TRY(keeper.facts_, facts_of(driver));
  LATHE_CHECK_OK(check(driver.stream_create(&keeper.stream_, kNonBlocking), "cannot make a stream"));
  return keeper;
}

void Keeper::serve(const Channel& channel) {
  for (;;) {
    auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    KeeperReply reply;
    const Status handled = handle(channel, *std::move(frame), reply);
    reply.ok = handled.ok();
    if (!handled.ok()) reply.text = handled.error().message;
    if (!channel.send(encode(reply)).ok()) return;
  }
}

Status Keeper::handle(const Channel& channel, Frame frame, KeeperReply& reply) {
  LATHE_TRY(const KeeperRequest request, decode_keeper_request(frame.bytes));
  using Verb = KeeperRequest::Verb;
  if (request.verb == Verb::kCreate) return create(request, frame.fds);
  if (request.verb == Verb::kMeasure) {
    LATHE_TRY(reply.numbers, measure_device(*driver_, frame.fds, facts_));
    return Ok{};
  }
  if (request.verb == Verb::kDestroy) return drop(request.workload), Ok{};
  const auto found = workloads_.find(request.workload);
  if (found == workloads_.end()) return Error{ErrorCode::kInternal, "an unknown workload"};
  const HeldWorkload& workload = found->second;
  for (const std::uint32_t trial : request.trials)
    if (trial >= workload.layout.trials) return Error{ErrorCode::kInternal, "an unknown trial"};
  if (request.verb == Verb::kExport) return share(channel, workload);
  for (const std::uint32_t trial : request.trials) {
    if (request.verb == Verb::kReset) LATHE_CHECK_OK(reset(workload, trial, request.poison));
    if (request.verb == Verb::kCollect) LATHE_CHECK_OK(collect(workload, trial));
  }
  return check(driver_->stream_synchronize(stream_), "the keeper's stream failed");
}

Status Keeper::create(const KeeperRequest& request, const std::vector<UniqueFd>& fds) {
  const Layout& layout = request.layout;
  if (fds.size() != 2 || layout.trials == 0) return Error{ErrorCode::kCorrupt, "a workload without memory"};
  LATHE_TRY(const Mapping inputs, map_shared(fds[0], layout.inputs.stride * layout.trials, false));
  HeldWorkload workload;
  workload.layout = layout;
  LATHE_TRY(workload.outputs, map_shared(fds[1], layout.outputs.stride * layout.trials, true));
  for (std::uint32_t t = 0; t < layout.trials; ++t) {
    TrialMemory& trial = workload.trials.emplace_back();
    for (std::size_t i = 0; i < layout.inputs.slots.size(); ++i) {
      const Slot& slot = layout.inputs.slots[i];
      LATHE_TRY(DeviceMemory memory, DeviceMemory::create(*driver_, slot.allocation_bytes));
      const std::byte* const from = inputs.data() + t * layout.inputs.stride + layout.inputs.offsets[i];
      LATHE_CHECK_OK(check(driver_->copy_to_device(memory.address() + slot.offset, from, slot.bytes),
                           "cannot upload an input"));
      trial.inputs.push_back(std::move(memory));
    }
    for (const Slot& slot : layout.outputs.slots) {
      LATHE_TRY(DeviceMemory memory, DeviceMemory::create(*driver_, slot.allocation_bytes));
      trial.outputs.push_back(std::move(memory));
    }
  }
  // Pinned copies are ten times as fast; where memory may not be locked, the slow ones are right too.
  workload.pinned = driver_->register_host(workload.outputs.data(), workload.outputs.size(), 0) == 0;
  drop(request.workload);
  workloads_.emplace(request.workload, std::move(workload));
  return Ok{};
}

void Keeper::drop(std::uint64_t workload) {
  const auto found = workloads_.find(workload);
  if (found == workloads_.end()) return;
  if (found->second.pinned) driver_->unregister_host(found->second.outputs.data());
  workloads_.erase(found);
}

Status Keeper::share(const Channel& channel, const HeldWorkload& workload) const {
  std::vector<UniqueFd> handles;
  const auto flush = [&]() -> Status {
    std::vector<int> fds;
    for (const UniqueFd& handle : handles) fds.push_back(handle.get());
    LATHE_CHECK_OK(channel.send("memory", fds));
    handles.clear();
    return Ok{};
  };
  for (const TrialMemory& trial : workload.trials)
    for (const auto* buffers : {&trial.inputs, &trial.outputs})
      for (const DeviceMemory& memory : *buffers) {
        LATHE_TRY(UniqueFd handle, memory.share());
        handles.push_back(std::move(handle));
        if (handles.size() == kMaxFrameFds) LATHE_CHECK_OK(flush());
      }
  return handles.empty() ? Status(Ok{}) : flush();
}

Status Keeper::reset(const HeldWorkload& workload, std::uint32_t trial, std::uint8_t poison) const {
  const Layout& layout = workload.layout;
  const TrialMemory& memory = workload.trials[trial];
  for (std::size_t i = 0; i < layout.outputs.slots.size(); ++i) {
    const Slot& slot = layout.outputs.slots[i];
    const DevicePointer at = memory.outputs[i].address();
    LATHE_CHECK_OK(check(driver_->set_bytes(at + slot.window_begin(), kCanary, slot.window_bytes(), stream_),
                         "cannot fill"));
    const std::int32_t source = layout.inout_source[i];
    const auto from = static_cast<std::size_t>(source);
    const Code code =
        source < 0 ? driver_->set_bytes(at + slot.offset, poison, slot.bytes, stream_)
                   : driver_->copy_on_device(at + slot.offset,
                                             memory.inputs[from].address() + layout.inputs.slots[from].offset,
                                             slot.bytes, stream_);
    LATHE_CHECK_OK(check(code, "cannot fill an output"));
  }
  return Ok{};
}

Status Keeper::collect(const HeldWorkload& workload, std::uint32_t trial) const {
  const Layout& layout = workload.layout;
  for (std::size_t i = 0; i < layout.outputs.slots.size(); ++i) {
    const Slot& slot = layout.outputs.slots[i];
    std::byte* const to = workload.outputs.data() + trial * layout.outputs.stride + layout.outputs.offsets[i];
    LATHE_CHECK_OK(check(
        driver_->copy_to_host_later(to, workload.trials[trial].outputs[i].address() + slot.window_begin(),
                                    slot.window_bytes(), stream_),
        "cannot fetch an output"));
  }
  return Ok{};
}

}  // namespace lathe::cuda
