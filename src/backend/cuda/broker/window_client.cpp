#include "backend/cuda/broker/window_client.h"

#include <atomic>
#include <mutex>
#include <set>

#include "backend/cuda/broker/keeper_client.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/cuda/wire/window_frames.h"
#include "base/processors.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

using namespace cuda;
using Verb = WindowRequest::Verb;

constexpr int kStartMs = 30'000, kReplyMs = 30'000;

/// A process that holds windows. Thread-safe.
class WindowProcess {
 public:
  static Result<std::shared_ptr<WindowProcess>> start(const CudaBackendOptions& options) {
    LATHE_TRY(HelperProcess process,
              HelperProcess::spawn(options.runner_program, {"window"}, options.device_environment));
    auto made = std::make_shared<WindowProcess>(std::move(process));
    LATHE_TRY(const Frame hello, made->process_.first_frame(kStartMs));
    LATHE_TRY(made->device_, decode_window_device(hello.bytes));
    if (!made->device_.facts.error.empty()) return Error{ErrorCode::kUnavailable, made->device_.facts.error};
    return made;
  }

  explicit WindowProcess(HelperProcess process) : process_(std::move(process)) {}
  const WindowDevice& device() const { return device_; }
  bool is_lost() const { return lost_; }
  std::uint64_t new_window() { return ++windows_; }

  struct Answer {
    WindowReply reply;
    std::vector<UniqueFd> handles;
  };
  Result<Answer> ask(WindowRequest request, const std::vector<int>& fds = {}) {
    std::lock_guard lock(mutex_);
    request.id = ++requests_;
    const auto lost = [&](const Error& why) {
      lost_ = true;
      process_.begin_kill();
      return Error{ErrorCode::kIo, "the GPU's windows were lost: " + why.message};
    };
    if (lost_) return Error{ErrorCode::kIo, "the GPU's windows were lost"};
    if (const Status sent = process_.channel().send(encode(request), fds); !sent.ok())
      return lost(sent.error());
    process_.channel().look_out(spin_ns_);
    auto frame = process_.channel().receive(kReplyMs);
    if (!frame.ok()) return lost(frame.error());
    auto reply = decode_window_reply(frame->bytes);
    if (!reply.ok()) return lost(reply.error());
    if (reply->id != request.id) return lost(Error{ErrorCode::kCorrupt, "a reply to another request"});
    if (!reply->ok) return Error{ErrorCode::kUnavailable, reply->text};
    return Answer{*std::move(reply), std::move(frame->fds)};
  }

 private:
  HelperProcess process_;
  const std::int64_t spin_ns_ = spin_ns_of_waiters();
  WindowDevice device_;
  std::mutex mutex_;
  std::uint64_t requests_ = 0;
  std::atomic<std::uint64_t> windows_ = 0;
  std::atomic<bool> lost_ = false;
};

class CudaWindows final : public DeviceWindows {
 public:
  CudaWindows(std::shared_ptr<WindowProcess> process, std::uint64_t window, std::array<std::size_t, 2> bytes,
              std::array<UniqueFd, 2> handles)
      : process_(std::move(process)), window_(window), bytes_(bytes), handles_(std::move(handles)) {}
  CudaWindows(const CudaWindows&) = delete;
  CudaWindows& operator=(const CudaWindows&) = delete;
  ~CudaWindows() override { (void)ask({.verb = Verb::kClose}); }

  const std::array<UniqueFd, 2>& handles() const override { return handles_; }
  std::array<std::size_t, 2> bytes() const override { return bytes_; }
  Status stage(std::uint8_t poison, std::uint64_t trial) override {
    LATHE_TRY(const auto answer, process_->ask({.verb = Verb::kStage,
                                                .window = window_,
                                                .poison = poison,
                                                .slot = trial,
                                                .filled = has(trial)}));
    if (answer.reply.numbers[0] != 0) kept_.insert(trial);
    return Ok{};
  }
  bool has(std::uint64_t trial) const override { return kept_.contains(trial); }
  Status give() override { return ask({.verb = Verb::kGive}); }
  Status take() override { return ask({.verb = Verb::kTake}); }
  Status fetch(std::size_t offset) override { return ask({.verb = Verb::kFetch, .offset = offset}); }
  Result<Costs> measure() override {
    LATHE_TRY(const auto answer, process_->ask({.verb = Verb::kMeasure, .window = window_}));
    return Costs{answer.reply.numbers[0], answer.reply.numbers[1], kWindowMeasurements,
                 answer.reply.numbers[2]};
  }

 private:
  Status ask(WindowRequest request) const {
    request.window = window_;
    LATHE_TRY(const auto answer, process_->ask(request));
    return Ok{};
  }

  std::shared_ptr<WindowProcess> process_;
  std::uint64_t window_;
  std::set<std::uint64_t> kept_;  ///< trials whose inputs are on the device
  std::array<std::size_t, 2> bytes_;
  std::array<UniqueFd, 2> handles_;
};

class CudaHostGpu final : public HostGpu {
 public:
  CudaHostGpu(CudaBackendOptions options, std::shared_ptr<WindowProcess> process)
      : options_(std::move(options)), process_(std::move(process)) {
    const WindowDevice& gpu = process_->device();
    device_.name = gpu.facts.name;
    device_.uuid = gpu.facts.uuid;
    device_.driver = std::to_string(gpu.facts.driver_version);
    device_.facts = facts_of(gpu.facts);
    device_.memory_bytes = gpu.facts.memory_bytes;
    arch_ = arch_of(gpu.facts);
    peaks_.levels = {{"L2", static_cast<double>(gpu.facts.l2_bytes), gpu.l2_bytes_per_second},
                     {"DRAM", static_cast<double>(gpu.facts.memory_bytes), gpu.dram_bytes_per_second}};
    peaks_.flops_per_second = gpu.flops_per_second;
    peaks_.tensor_flops_per_second = gpu.tensor_flops_per_second;
  }

  const DeviceInfo& device() const override { return device_; }
  const DevicePeaks& peaks() const override { return peaks_; }
  const std::string& arch() const override { return arch_; }
  const std::vector<std::string>& environment() const override { return options_.device_environment; }

  Result<std::unique_ptr<DeviceWindows>> open(const Sizes& sizes, const UniqueFd& inputs,
                                              const UniqueFd& outputs) override {
    LATHE_TRY(const std::shared_ptr<WindowProcess> process, current());
    WindowRequest request{.verb = Verb::kOpen,
                          .window = process->new_window(),
                          .inputs = sizes.inputs,
                          .outputs = sizes.outputs};
    LATHE_TRY(auto answer, process->ask(request, {inputs.get(), outputs.get()}));
    if (answer.handles.size() != 2) return Error{ErrorCode::kCorrupt, "windows without handles"};
    std::array<std::size_t, 2> bytes{};
    for (std::size_t i = 0; i < 2; ++i) bytes[i] = static_cast<std::size_t>(answer.reply.numbers[i]);
    return std::unique_ptr<DeviceWindows>(std::make_unique<CudaWindows>(
        process, request.window, bytes,
        std::array{std::move(answer.handles[0]), std::move(answer.handles[1])}));
  }

 private:
  Result<std::shared_ptr<WindowProcess>> current() {
    std::lock_guard lock(mutex_);
    if (!process_->is_lost()) return process_;
    LATHE_TRY(auto again, WindowProcess::start(options_));
    if (again->device().facts.uuid != device_.uuid)
      return Error{ErrorCode::kUnavailable, "the GPU was lost, and another one came"};
    process_ = std::move(again);
    return process_;
  }

  const CudaBackendOptions options_;
  std::mutex mutex_;
  std::shared_ptr<WindowProcess> process_;
  DeviceInfo device_;
  DevicePeaks peaks_;
  std::string arch_;
};

}  // namespace

Result<std::unique_ptr<HostGpu>> make_host_gpu(const CudaBackendOptions& options) {
  LATHE_TRY(CudaBackendOptions whole, with_defaults(options));
  auto process = WindowProcess::start(whole);
  if (!process.ok())
    return explain_missing(process.error(), whole.device, [&] { return list_visible(whole); });
  return std::unique_ptr<HostGpu>(std::make_unique<CudaHostGpu>(std::move(whole), *std::move(process)));
}

}  // namespace lathe
