#include "backend/cuda/runner/window_server.h"

#include <algorithm>

#include "backend/cuda/runner/device_list.h"
#include "base/clock.h"
#include "base/processors.h"

namespace lathe::cuda {
namespace {

constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;  // of inputs, for a process's timed blocks
constexpr std::uint64_t kSlotAlignment = 512;

std::uint64_t whole_allocations(std::uint64_t bytes) {
  return (std::max<std::uint64_t>(1, bytes) + kAllocationBytes - 1) / kAllocationBytes * kAllocationBytes;
}

/// What no program exceeds at the highest clocks, from attributes and the CUDA programming guide.
WindowDevice describe(const Driver& driver, DeviceFacts facts) {
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.device_attribute(&value, which, 0);
    return static_cast<double>(value);
  };
  constexpr double kLanes = 128, kL2BytesPerClock = 128;  // of a multiprocessor
  const double clocks =
      1e3 * attribute(DeviceAttribute::kClockKhz) * static_cast<double>(facts.multiprocessors);
  WindowDevice device;
  device.dram_bytes_per_second =
      2e3 * attribute(DeviceAttribute::kMemoryClockKhz) * attribute(DeviceAttribute::kMemoryBusBits) / 8;
  device.l2_bytes_per_second = std::max(device.dram_bytes_per_second, kL2BytesPerClock * clocks);
  device.flops_per_second = 2 * kLanes * clocks;
  device.tensor_flops_per_second = tensor_operations(facts) * clocks;
  device.facts = std::move(facts);
  return device;
}

}  // namespace

Result<std::unique_ptr<WindowServer>> WindowServer::open(const Driver& driver) {
  LATHE_CHECK_OK(open_device(driver));
  std::unique_ptr<WindowServer> server(new WindowServer(driver));
  LATHE_TRY(DeviceFacts facts, facts_of_first_device(driver));
  server->device_ = describe(driver, std::move(facts));
  LATHE_CHECK_OK(check(driver.stream_create(&server->stream_, kNonBlocking), "cannot make a stream"));
  return server;
}

void WindowServer::serve(const Channel& channel) {
  const std::int64_t spin_ns = spin_ns_of_waiters();
  for (;;) {
    channel.look_out(spin_ns);
    const auto frame = channel.receive(-1);
    if (!frame.ok()) return;
    const auto request = decode_window_request(frame->bytes);
    if (!request.ok()) return;
    WindowReply reply{.id = request->id};
    std::vector<UniqueFd> handles;
    const Status done = handle(*request, frame->fds, reply, handles);
    reply.ok = done.ok();
    if (!done.ok()) reply.text = done.error().message;
    std::vector<int> fds;
    for (const UniqueFd& handle : handles) fds.push_back(handle.get());
    if (!channel.send(encode(reply), fds).ok()) return;
  }
}

Status WindowServer::handle(const WindowRequest& request, const std::vector<UniqueFd>& fds,
                            WindowReply& reply, std::vector<UniqueFd>& handles) {
  using Verb = WindowRequest::Verb;
  if (request.verb == Verb::kOpen) return open_windows(request, fds, reply, handles);
  const auto found = windows_.find(request.window);
  if (found == windows_.end()) return Error{ErrorCode::kInternal, "unknown windows"};
  Windows& windows = found->second;
  switch (request.verb) {
    case Verb::kClose:
      windows_.erase(found);
      return Ok{};
    case Verb::kStage:
      return stage(windows, request, reply);
    case Verb::kGive:
      return give(windows);
    case Verb::kTake:
      return take(windows);
    case Verb::kFetch:
      if (request.offset > windows.host_outputs.size() ||
          windows.output_bytes > windows.host_outputs.size() - request.offset)
        return Error{ErrorCode::kInternal, "outputs beyond their memory"};
      return check(driver_->copy_to_host(windows.host_outputs.data() + request.offset,
                                         windows.taken.address(), windows.output_bytes),
                   "cannot fetch outputs");
    case Verb::kMeasure:
      return measure(windows, reply);
    case Verb::kOpen:
      break;
  }
  return Error{ErrorCode::kCorrupt, "an unknown request"};
}

Status WindowServer::open_windows(const WindowRequest& request, const std::vector<UniqueFd>& fds,
                                  WindowReply& reply, std::vector<UniqueFd>& handles) {
  if (fds.size() != 2) return Error{ErrorCode::kCorrupt, "windows without their host memory"};
  const auto size_of = [](const UniqueFd& fd) {
    return static_cast<std::size_t>(std::max<off_t>(0, ::lseek(fd.get(), 0, SEEK_END)));
  };
  Windows made;
  made.input_bytes = request.inputs;
  made.output_bytes = request.outputs;
  LATHE_TRY(made.host_inputs, map_shared(fds[0], size_of(fds[0]), false));
  LATHE_TRY(made.host_outputs, map_shared(fds[1], size_of(fds[1]), true));
  if (made.host_inputs.size() < request.inputs)
    return Error{ErrorCode::kCorrupt, "inputs beyond their memory"};
  const std::uint64_t inputs = whole_allocations(request.inputs),
                      outputs = whole_allocations(request.outputs);
  LATHE_TRY(made.inputs, DeviceMemory::create(*driver_, inputs));
  LATHE_TRY(made.staged, DeviceMemory::create(*driver_, inputs));
  LATHE_TRY(made.outputs, DeviceMemory::create(*driver_, outputs));
  LATHE_TRY(made.taken, DeviceMemory::create(*driver_, outputs));
  made.next_address = made.staged.address();
  for (const DeviceMemory* memory : {&made.inputs, &made.outputs}) {
    LATHE_TRY(UniqueFd handle, memory->share());
    handles.push_back(std::move(handle));
    // What a driver does later than it says is done by now.
    LATHE_CHECK_OK(check(driver_->set_bytes(memory->address(), 0, memory->bytes(), stream_), "cannot clear"));
  }
  LATHE_CHECK_OK(check(driver_->stream_synchronize(stream_), "cannot clear windows"));
  reply.numbers = {static_cast<double>(inputs), static_cast<double>(outputs)};
  windows_.insert_or_assign(request.window, std::move(made));
  return Ok{};
}

std::optional<std::uint64_t> WindowServer::slot_address(Windows& windows, std::uint64_t slot) const {
  const std::uint64_t stride = (windows.input_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  if (stride == 0 || slot >= kKeptBytes / stride) return {};
  if (windows.kept.bytes() == 0) {
    auto memory = DeviceMemory::create(*driver_, kKeptBytes);
    if (!memory.ok()) return {};
    windows.kept = *std::move(memory);
  }
  return windows.kept.address() + slot * stride;
}

/// On the stream of give(): a copy from pageable memory may return before the device has it all.
Status WindowServer::stage(Windows& windows, const WindowRequest& request, WindowReply& reply) const {
  const auto slot = slot_address(windows, request.slot);
  reply.numbers[0] = slot.has_value();
  if (request.filled && !slot) return Error{ErrorCode::kInternal, "no inputs of that trial"};
  windows.next_address = slot.value_or(windows.staged.address());
  if (!request.filled)
    LATHE_CHECK_OK(check(driver_->copy_to_device_later(windows.next_address, windows.host_inputs.data(),
                                                       windows.input_bytes, stream_),
                         "cannot stage inputs"));
  LATHE_CHECK_OK(
      check(driver_->set_bytes(windows.outputs.address(), request.poison, windows.output_bytes, stream_),
            "cannot poison outputs"));
  return check(driver_->stream_synchronize(stream_), "cannot poison outputs");
}

Status WindowServer::give(const Windows& windows) const {
  LATHE_CHECK_OK(check(
      driver_->copy_on_device(windows.inputs.address(), windows.next_address, windows.input_bytes, stream_),
      "cannot give inputs"));
  return check(driver_->stream_synchronize(stream_), "cannot give inputs");
}

Status WindowServer::take(const Windows& windows) const {
  LATHE_CHECK_OK(check(driver_->copy_on_device(windows.taken.address(), windows.outputs.address(),
                                               windows.output_bytes, stream_),
                       "cannot take outputs"));
  return check(driver_->stream_synchronize(stream_), "cannot take outputs");
}

Status WindowServer::measure(const Windows& windows, WindowReply& reply) const {
  std::size_t free_bytes = 0, all_bytes = 0;
  LATHE_CHECK_OK(check(driver_->free_memory(&free_bytes, &all_bytes), "cannot ask for free memory"));
  reply.numbers = {1e18, 1e18, static_cast<double>(free_bytes)};
  for (int i = 0; i < kWindowMeasurements; ++i) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    LATHE_CHECK_OK(give(windows));
    const std::int64_t middle_ns = steady_clock().now_ns();
    LATHE_CHECK_OK(take(windows));
    const std::int64_t end_ns = steady_clock().now_ns();
    reply.numbers[0] = std::min(reply.numbers[0], static_cast<double>(middle_ns - begin_ns));
    reply.numbers[1] = std::min(reply.numbers[1], static_cast<double>(end_ns - middle_ns));
  }
  return Ok{};
}

}  // namespace lathe::cuda
