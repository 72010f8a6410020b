#include "backend/cuda/broker/session.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "backend/cuda/wire/output_memory.h"
#include "base/clock.h"
#include "base/parallel.h"

namespace lathe::cuda {
namespace {

constexpr int kLoadTimeoutMs = 20'000;
constexpr int kReplyTimeoutMs = 2'000;
constexpr auto kNap = std::chrono::microseconds(20);
constexpr std::int64_t kReadyTimeoutNs = 20'000'000'000;
constexpr const char* kMemoryReplaced = "memory_replaced";
// What the broker sees later than the device's clock, in which other contexts had the device or the
// host was busy. A candidate can forge that clock, but gains no more by it than to have a slow
// block run again.
constexpr double kLateNs = 1e3, kLateShare = 0.005;
constexpr std::size_t kMostLoads = 16;
constexpr std::uint64_t kMostLoadedBytes = std::uint64_t{1} << 30;
constexpr double kElementsForThreads = 1 << 19;  // fewer are compared before threads have begun

BlockOutcome failed(BlockStatus status, std::string reason, std::string detail) {
  return {status, std::move(reason), std::move(detail)};
}

/// What CUresult codes mean for a candidate. Others are launches that the driver refused.
const std::map<int, const char*>& fault_reasons() {
  static const std::map<int, const char*> reasons = {{700, "illegal_address"},
                                                     {701, "launch_out_of_resources"},
                                                     {702, "launch_timeout"},
                                                     {710, "assert"},
                                                     {714, "hardware_stack_error"},
                                                     {715, "illegal_instruction"},
                                                     {716, "misaligned_address"},
                                                     {717, "invalid_address_space"},
                                                     {718, "invalid_pc"},
                                                     {719, "launch_failed"},
                                                     {720, "cooperative_launch_too_large"}};
  return reasons;
}

BlockOutcome describe_fault(const BlockReply& reply) {
  const auto found = fault_reasons().find(reply.code);
  return failed(BlockStatus::kCrash, found == fault_reasons().end() ? "launch_refused" : found->second,
                reply.text);
}

}  // namespace

Result<std::unique_ptr<CudaSession>> CudaSession::open(Load load, std::string cubin,
                                                       std::shared_ptr<const CudaWorkload> workload,
                                                       const SessionOptions& options) {
  LATHE_TRY(const OutputBank* const bank, workload->use_bank());
  std::unique_ptr<CudaSession> session(
      new CudaSession(std::move(load), std::move(cubin), std::move(workload), *bank, options));
  LATHE_CHECK_OK(session->start());
  return session;
}

CudaSession::~CudaSession() {
  if (launcher_) options_.launchers->give_back({options_.candidate, options_.runner}, *std::move(launcher_));
  workload_->leave_bank(bank_);
}

Status CudaSession::start() {
  const UsageMeter::Stage stage(*options_.usage, "open");
  generation_ = workload_->generation();
  const std::string payload = encode(load_);
  const Digest own = Hasher()
                         .add(payload)
                         .add(cubin_)
                         .add(std::to_string(workload_->id()))
                         .add(std::to_string(generation_))
                         .add(std::to_string(bank_.index()))
                         .finish();
  Status loaded = load_into_launcher(payload, own);
  if (loaded.ok() || loaded.error().reason != kDeviceMemory) return loaded;
  options_.launchers->end_idle();
  return load_into_launcher(payload, own);
}

Status CudaSession::load_into_launcher(const std::string& payload, const Digest& own) {
  LATHE_TRY(LoadedLauncher launcher, options_.launchers->take({options_.candidate, options_.runner}, own));
  auto& loads = launcher.loads;
  if (const auto known = std::ranges::find(loads, own, &LoadedLauncher::Loaded::digest);
      known != loads.end()) {
    if (known + 1 != loads.end())
      LATHE_CHECK_OK(launcher.process.channel().send(encode(LoadOrder{known->number})));
    std::rotate(known, known + 1, loads.end());
  } else {
    const UsageMeter::Stage loading(*options_.usage, loads.empty() ? "load first" : "load");
    LATHE_TRY(LoadedLauncher::Loaded loaded, load(launcher, payload));
    loaded.digest = own;
    loads.push_back(std::move(loaded));
  }
  launcher_ = std::move(launcher);
  return Ok{};
}

/// A candidate's process has one load at a time; the baselines' keep some, for each candidate is
/// timed against the same ones.
LoadOrder CudaSession::make_room(LoadedLauncher& launcher, std::uint64_t device_bytes) const {
  LoadOrder order{launcher.next_number++};
  auto& loads = launcher.loads;
  const std::size_t most = options_.runner.process == Runner::kShared ? kMostLoads : 1;
  const auto held_bytes = [&] {
    std::uint64_t bytes = device_bytes;
    for (const auto& loaded : loads) bytes += loaded.device_bytes;
    return bytes;
  };
  while (!loads.empty() && (loads.size() >= most || held_bytes() > kMostLoadedBytes)) {
    order.unload.push_back(loads.front().number);
    loads.erase(loads.begin());
  }
  return order;
}

Result<LoadedLauncher::Loaded> CudaSession::load(LoadedLauncher& launcher, const std::string& payload) const {
  const std::uint64_t bytes = device_bytes(load_.layout);
  const LoadOrder order = make_room(launcher, bytes);
  LoadedLauncher::Loaded loaded{order.number, {}, bytes, {}};
  LATHE_TRY(const UniqueFd control, make_memfd("control", kPageBytes));
  LATHE_TRY(loaded.control, map_shared(control, kPageBytes, true));
  LATHE_TRY(const UniqueFd request, make_sealed_memfd("load", payload));
  LATHE_TRY(const UniqueFd object, make_sealed_memfd("cubin", cubin_));  // empty for plans of library steps
  const Channel& channel = launcher.process.channel();
  LATHE_CHECK_OK(channel.send(encode(order), {request.get(), control.get(), object.get()}));
  {
    const UsageMeter::Stage sharing(*options_.usage, "share");
    LATHE_CHECK_OK(bank_.share(channel));
  }
  LATHE_TRY(const Frame frame, channel.receive(kLoadTimeoutMs));
  LATHE_TRY(const LoadReply reply, decode_load_reply(frame.bytes));
  if (reply.ok) return loaded;
  return error_of(reply);
}

bool CudaSession::answered() const {
  pollfd waiting{launcher_->process.channel().fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

bool CudaSession::wait_for(const std::atomic<std::uint32_t>& flag, std::int64_t deadline_ns,
                           const CancelToken& cancel, bool spin) const {
  for (;;) {
    for (int i = 0; i < (spin ? 4096 : 16); ++i) {
      if (flag.load(std::memory_order_acquire) != 0) return true;
      _mm_pause();
    }
    if (answered() || cancel.cancelled() || steady_clock().now_ns() > deadline_ns)
      return flag.load(std::memory_order_acquire) != 0;
    if (!spin) std::this_thread::sleep_for(kNap);
  }
}

/// Loading the module and the graph is work for the device: beside a timed block it would take the
/// device from that for a quarter of a millisecond.
Result<bool> CudaSession::record(const BlockRequest& request) {
  if (generation_ != workload_->generation()) launcher_.reset();
  if (!launcher_) LATHE_CHECK_OK(start());
  const UsageMeter::Stage stage(*options_.usage, "record");
  const auto lease = options_.lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock, request.cancel);
  if (request.waited_ns) *request.waited_ns += lease.waited_ns();
  if (request.cancel.cancelled()) return false;
  clear_control();
  Block block;
  block.poison = request.poison;
  for (const int trial : request.trials) block.trials.push_back(static_cast<std::uint32_t>(trial));
  LATHE_CHECK_OK(launcher_->process.channel().send(encode(block)));
  return wait_for(control().recorded, steady_clock().now_ns() + kReadyTimeoutNs, request.cancel, false);
}

CudaSession::Timing CudaSession::time_block(const BlockRequest& request) {
  Timing timing;
  const auto now = [] { return steady_clock().now_ns(); };
  const auto use = request.timed ? DeviceLane::Use::kTiming : DeviceLane::Use::kWork;
  DeviceLane::Lease lease;
  {
    const UsageMeter::Stage stage(*options_.usage, "lane");
    lease = options_.lane->take(use, DeviceLane::Grain::kBlock, request.cancel);
    if (request.waited_ns) *request.waited_ns += lease.waited_ns();
    if (request.cancel.cancelled()) return timing;
  }
  const UsageMeter::Stage stage(*options_.usage, request.timed ? "timed" : "untimed");
  control().prepare.store(1, std::memory_order_release);
  timing.ready = wait_for(control().ready, now() + kReadyTimeoutNs, request.cancel, true);
  if (!timing.ready) return timing;
  const auto keeper = workload_->keeper().reserve();  // for the sample of the outputs, which must not wait
  const auto timeout_ns = static_cast<std::int64_t>(request.timeout_seconds * 1e9);
  const std::int64_t begin_ns = now();
  control().go.store(1, std::memory_order_release);
  timing.done = wait_for(control().done, begin_ns + timeout_ns, request.cancel, true);
  timing.wall_ns = static_cast<double>(now() - begin_ns);
  if (timing.done) {
    timing.sampled = bank_.sample(*keeper, request);
  } else if (!answered()) {
    timing.expired = true;
    launcher_->process.begin_kill();  // before others have the device again
  }
  return timing;
}

BlockOutcome CudaSession::run(const BlockRequest& request) {
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  BlockOutcome outcome;
  // A reset that finds the device lost replaces the memory, which a launcher must map before it
  // records calls.
  for (int attempt = 0; attempt < 2; ++attempt) {
    outcome = try_block(request);
    if (outcome.reason != kMemoryReplaced) break;
  }
  if (outcome.status != BlockStatus::kOk) launcher_.reset();
  return outcome;
}

BlockOutcome CudaSession::try_block(const BlockRequest& request) {
  const Result<bool> recorded = record(request);
  if (!recorded.ok()) return failed(BlockStatus::kInfra, "runner_lost", recorded.error().message);
  const auto outputs = bank_.lock();
  Timing timing;
  if (*recorded) {
    if (const Status filled = reset(request); !filled.ok())
      return failed(BlockStatus::kInfra, "keeper", filled.error().message);
    if (generation_ != workload_->generation())
      return failed(BlockStatus::kInfra, kMemoryReplaced, "the GPU was lost; it serves again");
    timing = time_block(request);
    options_.usage->add_block(timing.wall_ns);
    if (!timing.sampled.ok()) return failed(BlockStatus::kInfra, "keeper", timing.sampled.error().message);
  }
  const double clock_mhz = read_clock();
  BlockOutcome outcome = judge(request, timing);
  outcome.clock_mhz = clock_mhz;
  if (!timing.done) launcher_.reset();
  return outcome;
}

BlockOutcome CudaSession::judge(const BlockRequest& request, const Timing& timing) {
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  if (timing.expired)
    return failed(BlockStatus::kTimeout, "timeout",
                  fmt::format("no end after {:.1f} s", request.timeout_seconds));
  const auto frame = launcher_->process.channel().receive(kReplyTimeoutMs);
  if (!frame.ok()) return failed(BlockStatus::kInfra, "runner_lost", frame.error().message);
  const auto reply = decode_block_reply(frame->bytes);
  if (!reply.ok()) return failed(BlockStatus::kInfra, "runner_lost", reply.error().message);
  if (reply->code != 0) return describe_fault(*reply);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  outcome.own_ns = reply->device_ns;
  outcome.wall_ns = std::max({1.0, reply->device_ns, timing.wall_ns - options_.empty_block_ns});
  const double delay_ns = outcome.wall_ns - reply->device_ns;
  outcome.disturbed = delay_ns > kLateNs + kLateShare * reply->device_ns;
  if (outcome.disturbed) options_.usage->add("late", delay_ns);
  if (reply->counter_dirty)
    return failed(BlockStatus::kCrash, "counter_dirty",
                  "a counter buffer was not zero after the call: a kernel must set it back to zero");
  const auto broken = collect(request);
  if (!broken.ok() || generation_ != workload_->generation())
    return failed(BlockStatus::kInfra, "keeper", broken.ok() ? "the GPU was lost" : broken.error().message);
  if (*broken >= 0)
    return failed(BlockStatus::kCrash, "oob_write",
                  fmt::format("wrote before the start or past the end of the output '{}'",
                              workload_->task.spec->outputs[static_cast<std::size_t>(*broken)].name));
  if (bank_.changed_since_sample(request))
    return failed(BlockStatus::kTampered, "late_write", "an output changed after the end of the block");
  if (!bank_.others_untouched(request))
    return failed(BlockStatus::kTampered, "other_trial",
                  "wrote to the output of a call that was not asked for");
  check_outputs(request, outcome);
  return outcome;
}

double CudaSession::read_clock() const {
  const UsageMeter::Stage stage(*options_.usage, "clock");
  return options_.log ? options_.log->take().clock_mhz : 0;
}

Status CudaSession::reset(const BlockRequest& request) const {
  const UsageMeter::Stage stage(*options_.usage, "reset");
  const auto lease = options_.lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock);
  return bank_.reset(request.poison);
}

Result<int> CudaSession::collect(const BlockRequest& request) const {
  const UsageMeter::Stage stage(*options_.usage, "collect");
  const auto lease = options_.lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock);
  return bank_.collect(request);
}

void CudaSession::check_outputs(const BlockRequest& request, BlockOutcome& outcome) const {
  const UsageMeter::Stage stage(*options_.usage, "check");
  std::vector<BlockOutcome> parts(request.trials.size());
  double elements = 0;
  for (const Expected& expected : workload_->trials.front().expected)
    elements += request.check_fraction * static_cast<double>(expected.value.data.size());
  const auto check = [&](int t) -> Status {
    const int trial = request.trials[static_cast<std::size_t>(t)];
    std::vector<std::span<const std::byte>> outputs;
    for (std::size_t i = 0; i < workload_->task.spec->outputs.size(); ++i)
      outputs.push_back(bank_.output(trial, static_cast<int>(i)));
    check_trial(*workload_, request, trial, outputs, parts[static_cast<std::size_t>(t)]);
    return Ok{};
  };
  const int trials = static_cast<int>(parts.size());
  if (elements * trials > kElementsForThreads)
    (void)for_each_index(trials, check);
  else
    for (int t = 0; t < trials; ++t) (void)check(t);
  for (BlockOutcome& part : parts) {
    std::ranges::move(part.outputs, std::back_inserter(outcome.outputs));
    std::ranges::move(part.rms, std::back_inserter(outcome.rms));
  }
}

}  // namespace lathe::cuda
