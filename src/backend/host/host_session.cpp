#include "backend/host/host_session.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <sstream>

#include "backend/host/jail/futex.h"
#include "base/clock.h"
#include "base/processors.h"
#include "sandbox/wire.h"

namespace lathe::host {
namespace {

constexpr double kImportSeconds = 20;         // beside the calls that warm a module up
constexpr double kLongestHoldSeconds = 3600;  // for the zygote: the broker ends it before
constexpr int kReplyTimeoutMs = 20'000;
constexpr std::int64_t kLateNs = 300'000;  // between what the broker and the zygote measure
constexpr int kSwitchesAllowed = 3;        // involuntary ones of a block's process after it was ready
constexpr std::size_t kMostExtensionBytes = std::size_t{64} << 20;
constexpr int kWarmUpCalls = 3;
constexpr long kNapNs = 5'000'000;
constexpr std::uint32_t kMostCalls = 1 << 20;  // of a process that serves several blocks
constexpr double kLeastFree = 0.5;             // of the memory that the idle device had
constexpr std::int64_t kBusyNs = 500'000;      // beyond twice what measuring takes on an idle device

BlockOutcome failed(BlockStatus status, std::string reason, std::string detail) {
  return {status, std::move(reason), std::move(detail)};
}

double ready_seconds(const BlockRequest& request) { return kImportSeconds + 2 * request.timeout_seconds; }

}  // namespace

std::string encode(const Extensions& extensions) {
  if (extensions.requests.empty() && extensions.compiled.empty()) return {};
  WireWriter writer;
  writer.put(static_cast<std::uint32_t>(extensions.requests.size()));
  for (std::size_t i = 0; i < extensions.requests.size(); ++i)
    writer.text(extensions.requests[i]).text(extensions.objects[i]);
  return writer.text(extensions.compiled).take();
}

Result<Extensions> decode_extensions(std::string_view bytes) {
  Extensions extensions;
  if (bytes.empty()) return extensions;
  WireReader reader(bytes);
  const std::size_t count = reader.count(8);
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    extensions.requests.push_back(reader.text(kMaxCandidateBytes * 2));
    extensions.objects.push_back(reader.text(kMostExtensionBytes));
  }
  extensions.compiled = reader.text(kMostExtensionBytes);
  if (!reader.finished()) return Error{ErrorCode::kCorrupt, "a Python candidate's extensions cannot be read"};
  return extensions;
}

Result<std::map<std::string, double>> read_activity(const std::string& said, double calls) {
  std::istringstream numbers(said);
  double own_ns = 0, own = 0, library_ns = 0, library = 0, unknown_ns = 0, unknown = 0;
  numbers >> own_ns >> own >> library_ns >> library >> unknown_ns >> unknown;
  const double all_ns = own_ns + library_ns + unknown_ns;
  const bool counted = !numbers.fail() && numbers.eof() &&
                       std::ranges::all_of(std::array{own_ns, own, library_ns, library, unknown_ns, unknown},
                                           [](double value) { return value >= 0 && std::isfinite(value); });
  if (!counted) return Error{ErrorCode::kCorrupt, "the process does not say whose kernels computed"};
  std::map<std::string, double> counters = {{"kernels", (own + library + unknown) / calls},
                                            {"own_kernels", own / calls},
                                            {"kernel_ns", all_ns / calls},
                                            {"own_kernel_ns", own_ns / calls}};
  if (unknown > 0) counters["unknown_kernel_ns"] = unknown_ns / calls;
  if (all_ns > 0) counters["own_kernel_share"] = own_ns / all_ns;
  return counters;
}

Result<std::unique_ptr<HostProcess>> HostProcess::open(std::shared_ptr<const Program> program) {
  LATHE_TRY(auto zygote, program->zygotes.take());
  std::unique_ptr<HostProcess> process(new HostProcess(std::move(zygote), std::move(program)));
  const std::int64_t begin_ns = steady_clock().now_ns();
  const Program& own = *process->program_;
  const HostSessionOptions& options = own.options;
  std::vector<Section> sections;
  std::size_t input_bytes = 0, most_trials = 0;
  for (const auto& workload : own.workloads) {
    Shape& shape = process->shapes_.emplace_back();
    shape.inputs = lay_out_inputs(workload->task);
    shape.outputs = lay_out_outputs(workload->task);
    shape.met.assign(workload->trials.size(), false);
    input_bytes = std::max(input_bytes, shape.inputs.bytes);
    process->stride_ = std::max(process->stride_, shape.outputs.bytes);
    most_trials = std::max(most_trials, workload->trials.size());
    sections.push_back({&workload->task, workload->model.get()});
  }
  LATHE_TRY(process->rooms_,
            Zygote::make_rooms({.window = input_bytes, .outputs = process->stride_ * most_trials}));
  nlohmann::json document =
      describe_program({own.candidate.text, own.candidate.host_program().entry}, sections);
  document["extensions"] = own.extensions.requests;
  document["compiled"] = !own.extensions.compiled.empty();
  document["threads"] = options.threads;
  document["cpus"] = options.timed_cpus;
  document["warm_up_calls"] = kWarmUpCalls;
  document["watched"] = options.watched;
  if (options.gpu) {
    LATHE_TRY(process->windows_, options.gpu->open({input_bytes, process->stride_}, process->rooms_.window_fd,
                                                   process->rooms_.outputs_fd));
    document["windows"] = process->windows_->bytes();
  }
  const Status loaded = process->zygote_->load(document.dump(), process->rooms_, sections, own.extensions,
                                               process->windows_.get());
  if (!loaded.ok()) {
    process->zygote_.drop();
    return loaded.error();
  }
  process->zygote_->count("open", begin_ns);
  return process;
}

/// Timed blocks of others wait for this, and a context takes long to end: nobody need wait for
/// that. What it had the device do was over when its last block was.
HostProcess::~HostProcess() {
  if (!timed_) (void)end();
  if (!alive_ || !zygote_.held()) return;
  tell_to_end();
  zygote_->leave_child();
}

void HostProcess::tell_to_end() const {
  say(desk().go, Desk::kEnd);
  say(desk().taken, Desk::kEnd);
}

bool HostProcess::wait_for(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns,
                           const CancelToken& cancel) const {
  for (;;) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    if (now >= value) return true;
    if (desk().ended.load(std::memory_order_acquire) != kRunning)
      return word.load(std::memory_order_acquire) >= value;
    if (steady_clock().now_ns() > deadline_ns || cancel.cancelled()) return false;
    watch(word, now, desk().spin_ns.load(), kNapNs);
  }
}

/// Done once, before the first timed process: what that leaves on the device must not count as
/// idle.
Status HostProcess::measure_windows() {
  if (!windows_ || idle_measure_ns_ > 0) return Ok{};
  LATHE_TRY(const DeviceWindows::Costs costs, windows_->measure());
  idle_measure_ns_ = costs.rounds * static_cast<std::int64_t>(costs.give_ns + costs.take_ns);
  idle_free_bytes_ = costs.free_bytes;
  // The process copies its outputs once itself, at the same cost.
  window_ns_ = std::max(0.0, costs.give_ns - options().empty_costs.give_ns) +
               2 * std::max(0.0, costs.take_ns - options().empty_costs.take_ns);
  return Ok{};
}

/// The inputs of timed blocks come again and again. A window serves the trials of several shapes in
/// other blocks, each of them once.
bool HostProcess::stage_inputs(const BlockRequest& request, std::size_t trial, Calls& calls) {
  const std::uint64_t kept = request.timed ? trial : DeviceWindows::kNoTrial;
  if (!windows_ || !windows_->has(kept)) {
    const std::vector<HostTensor>& inputs = workload().trials[trial].inputs;
    for (std::size_t t = 0; t < inputs.size(); ++t)
      std::memcpy(rooms_.window.data() + shape().inputs.offsets[t], inputs[t].bytes.data(),
                  shape().inputs.sizes[t]);
  }
  if (windows_) calls.device = windows_->stage(request.poison, kept);
  return calls.device.ok();
}

bool HostProcess::run_call(const BlockRequest& request, std::uint32_t call, double& left_ns, Calls& calls) {
  const auto now = [] { return steady_clock().now_ns(); };
  const std::int64_t begin_ns = now();
  if (windows_) calls.device = windows_->give();
  if (!calls.device.ok()) return false;
  const std::int64_t go_ns = now();
  say(desk().go, call);
  const bool stopped =
      wait_for(desk().stopped, call + 1, begin_ns + static_cast<std::int64_t>(left_ns), request.cancel);
  const std::int64_t stopped_ns = now();
  if (!stopped) {
    calls.timed_out = desk().ended.load() == kRunning;
    return false;
  }
  if (windows_) calls.device = windows_->take();
  const auto took_ns = static_cast<double>(now() - begin_ns);
  if (!calls.device.ok()) return false;
  calls.late = calls.late || stopped_ns - go_ns - desk().run_ns.load() > kLateNs;
  calls.wall_ns += std::max(took_ns / 2, took_ns - options().empty_call_ns - window_ns_);
  left_ns -= took_ns;
  return true;
}

bool HostProcess::left_nothing_behind() {
  if (!windows_) return true;
  const std::int64_t begin_ns = steady_clock().now_ns();
  const auto costs = windows_->measure();
  const std::int64_t took_ns = steady_clock().now_ns() - begin_ns;
  return costs.ok() && took_ns < 2 * idle_measure_ns_ + kBusyNs &&
         costs->free_bytes >= kLeastFree * idle_free_bytes_;
}

bool HostProcess::may_go_on(std::size_t section, const BlockRequest& request) const {
  if (!alive_ || !options().serves_on || timed_ != request.timed ||
      calls_made_ + request.trials.size() >= kMostCalls)
    return false;
  return timed_ || std::ranges::none_of(request.trials, [&](int trial) {
           return shapes_[section].met[static_cast<std::size_t>(trial)];
         });
}

Status HostProcess::provide(std::size_t section, const BlockRequest& request) {
  if (held_ && may_go_on(section, request) && section == section_) return release();
  if (may_go_on(section, request) && (section == section_ || switch_to(section, request))) return Ok{};
  if (alive_) (void)end();
  if (request.timed) {
    LATHE_CHECK_OK(measure_windows());
  }
  if (!zygote_.held()) return Error{ErrorCode::kIo, "the zygote is lost"};
  return begin(section, request);
}

Status HostProcess::release() {
  LATHE_CHECK_OK(measure_windows());
  held_ = false;
  begun_ns_ = steady_clock().now_ns();
  say(control().hold, 0);
  return Ok{};
}

Status HostProcess::begin(std::size_t section, const BlockRequest& request, bool held) {
  std::memset(rooms_.control.data(), 0, rooms_.control.size());  // with its text: none leaves a note
  std::memset(rooms_.desk.data(), 0, sizeof(Desk));
  begun_ns_ = steady_clock().now_ns();
  held_ = held;
  control().hold.store(held);
  timed_ = request.timed;
  section_ = section;
  calls_made_ = 0;
  for (Shape& shape : shapes_) shape.met.assign(shape.met.size(), false);
  const auto calls = options().serves_on ? kMostCalls : static_cast<std::uint32_t>(request.trials.size());
  const std::uint8_t poison = request.timed ? std::uint8_t{0} : request.poison;
  const double patience = held ? kLongestHoldSeconds : ready_seconds(request);
  LATHE_CHECK_OK(zygote_->begin_block(static_cast<std::uint16_t>(section), calls, poison, patience));
  alive_ = true;
  return Ok{};
}

bool HostProcess::switch_to(std::size_t section, const BlockRequest& request) {
  const auto deadline_ns = [&] {
    return steady_clock().now_ns() + static_cast<std::int64_t>(1e9 * ready_seconds(request));
  };
  const std::int64_t begin_ns = steady_clock().now_ns();
  const std::uint32_t call = ++calls_made_;
  desk().section.store(static_cast<std::uint32_t>(section));
  desk().slot.store(Desk::kNowhere);
  say(desk().go, call);
  if (!wait_for(desk().stopped, call + 1, deadline_ns(), request.cancel)) return false;
  say(desk().taken, call);
  if (!wait_for(desk().copied, call, deadline_ns(), request.cancel)) return false;
  section_ = section;
  zygote_->count("further shape", begin_ns);
  return true;
}

Result<ChildReply> HostProcess::end() {
  if (!alive_ || !zygote_.held()) return Error{ErrorCode::kInternal, "there is no process"};
  alive_ = false;
  tell_to_end();
  const std::int64_t begin_ns = steady_clock().now_ns();
  auto reply = zygote_->end_block(kReplyTimeoutMs);
  if (reply.ok())
    zygote_->count("end", begin_ns);
  else
    zygote_.drop();
  return reply;
}

HostProcess::Calls HostProcess::run_calls(const BlockRequest& request) {
  Calls calls;
  const double patience_ns = 2e9 * ready_seconds(request);  // the zygote says when it is too late
  calls.got_ready = wait_for(
      desk().stopped, 1, steady_clock().now_ns() + static_cast<std::int64_t>(patience_ns), request.cancel);
  if (!calls.got_ready) return calls;
  if (calls_made_ == 0) zygote_->count(request.timed ? "timed blocks" : "blocks", begun_ns_);
  run_calls(request, calls);
  count(request, "inputs", calls.stage_seconds);
  count(request, "calls", calls.run_seconds);
  count(request, "outputs", calls.copy_seconds);
  if (request.timed && windows_ && static_cast<std::size_t>(calls.ended) == request.trials.size()) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    calls.left_work = !left_nothing_behind();
    count(request, "idle check", seconds_since(begin_ns));
  }
  return calls;
}

void HostProcess::run_calls(const BlockRequest& request, Calls& calls) {
  double left_ns = request.timeout_seconds * 1e9;
  for (std::size_t i = 0; i < request.trials.size(); ++i) {
    const std::uint32_t call = ++calls_made_;
    const auto trial = static_cast<std::size_t>(request.trials[i]);
    shapes_[section_].met[trial] = true;
    desk().section.store(static_cast<std::uint32_t>(section_));
    desk().slot.store(static_cast<std::uint32_t>(i));
    const std::int64_t staging_ns = steady_clock().now_ns();
    if (!stage_inputs(request, trial, calls)) return;
    calls.stage_seconds += seconds_since(staging_ns);
    const std::int64_t running_ns = steady_clock().now_ns();
    if (!run_call(request, call, left_ns, calls)) return;
    calls.run_seconds += seconds_since(running_ns);
    const std::int64_t copying_ns = steady_clock().now_ns();
    say(desk().taken, call);
    const std::int64_t copied_by_ns = steady_clock().now_ns() + std::int64_t{20'000'000'000};
    if (!wait_for(desk().copied, call, copied_by_ns, request.cancel)) return;
    if (windows_) calls.device = windows_->fetch(i * stride_);
    if (!calls.device.ok()) return;
    calls.copy_seconds += seconds_since(copying_ns);
    ++calls.ended;
  }
}

BlockOutcome HostProcess::run(std::size_t section, const BlockRequest& request) {
  if (!zygote_.held()) return failed(BlockStatus::kInfra, "runner_lost", "the zygote ended unexpectedly");
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  const ThreadPlacement placement(options().broker_cpus);
  if (!windows_) {  // else they poison the device's memory
    std::memset(rooms_.window.data(), 0, rooms_.window.size());
    std::memset(rooms_.outputs.data(), request.poison, stride_ * request.trials.size());
  }
  const Status begun = provide(section, request);
  desk().spin_ns.store(request.timed ? options().spin_ns : 0);
  const Calls calls = begun.ok() ? run_calls(request) : Calls{};
  const bool serves_on = options().serves_on && calls.device.ok() && !calls.left_work &&
                         !request.cancel.cancelled() &&
                         static_cast<std::size_t>(calls.ended) == request.trials.size();
  Result<ChildReply> reply = ChildReply{};
  if (!begun.ok()) reply = begun.error();
  if (begun.ok() && !serves_on) reply = end();
  if (!reply.ok()) {
    const bool of_windows = reply.error().code == ErrorCode::kUnavailable;
    if (!of_windows) zygote_.drop();
    return failed(BlockStatus::kInfra, of_windows ? "windows" : "runner_lost", reply.error().message);
  }
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  if (!calls.device.ok()) return failed(BlockStatus::kInfra, "windows", calls.device.error().message);
  const std::int64_t judging_ns = steady_clock().now_ns();
  BlockOutcome outcome = judge(request, calls, *reply);
  if (zygote_.held()) count(request, "comparison", seconds_since(judging_ns));
  return outcome;
}

std::span<const std::byte> HostProcess::output(std::size_t call, std::size_t index) const {
  return {rooms_.outputs.data() + call * stride_ + shape().outputs.offsets[index],
          shape().outputs.sizes[index]};
}

BlockOutcome HostProcess::judge(const BlockRequest& request, const Calls& calls,
                                const ChildReply& reply) const {
  if (static_cast<std::size_t>(calls.ended) < request.trials.size())
    return describe_end(request, calls, reply);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  outcome.wall_ns = calls.wall_ns;
  // The switches of a process that serves several blocks are not this one's.
  const bool switched =
      !options().serves_on && reply.switches > control().switches_before.load() + kSwitchesAllowed;
  outcome.disturbed = calls.late || calls.left_work || switched;
  for (std::size_t call = 0; call < request.trials.size(); ++call) {
    std::vector<std::span<const std::byte>> outputs;
    for (std::size_t i = 0; i < shape().outputs.sizes.size(); ++i) outputs.push_back(output(call, i));
    check_trial(workload(), request, request.trials[call], outputs, outcome);
  }
  return outcome;
}

void HostProcess::count(const BlockRequest& request, const char* part, double seconds) const {
  zygote_->count_seconds(fmt::format("{} block: {}", request.timed ? "timed" : "verified", part), seconds);
}

/// The name of the input that has the byte.
std::string HostProcess::input_at(std::size_t offset) const {
  const std::vector<std::size_t>& offsets = shape().inputs.offsets;
  const auto after = std::upper_bound(offsets.begin(), offsets.end(), offset);
  const auto index = std::max<std::ptrdiff_t>(after - offsets.begin() - 1, 0);
  return workload().task.spec->tensors[static_cast<std::size_t>(index)].name;
}

BlockOutcome HostProcess::describe_end(const BlockRequest& request, const Calls& calls,
                                       const ChildReply& reply) const {
  const auto ending = static_cast<Ending>(desk().ended.load());
  const std::string said = text_of(rooms_);
  if (calls.timed_out)
    return failed(BlockStatus::kTimeout, "timeout",
                  fmt::format("not finished after {:.1f} s", request.timeout_seconds));
  if (ending == kNotStopped)
    return failed(BlockStatus::kTampered, "not_stopped", "the process ran on after it had been told to stop");
  if (ending == kBadOutput)
    return failed(BlockStatus::kTampered, "bad_output", "an output is not where the process says it is");
  if (ending == kLate || (!calls.got_ready && ending == kRunning))
    return failed(BlockStatus::kTimeout, "timeout",
                  fmt::format("imported and warmed up, it is not ready for its first call after {:.0f} s",
                              ready_seconds(request)));
  const int status = reply.wait_status;
  if (!reply.confined)
    return failed(BlockStatus::kInfra, "not_ready", "the process could not be prepared: " + said);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
    return failed(BlockStatus::kTampered, "forbidden_syscall", "the process made a forbidden system call");
  if (WIFSIGNALED(status))
    return failed(BlockStatus::kCrash, fmt::format("signal_{}", WTERMSIG(status)),
                  fmt::format("killed by signal {}", WTERMSIG(status)));
  const int code = WEXITSTATUS(status);
  switch (code) {
    case kExitImport:
      return failed(BlockStatus::kCrash, "import_error", said);
    case kExitEntry:
      return failed(BlockStatus::kCrash, "entry_error", said);
    case kExitState:
      return failed(BlockStatus::kCrash, "state_mismatch", said);
    case kExitException:
      return failed(BlockStatus::kCrash, "exception", said);
    case kExitMemory:
      if (windows_) return failed(BlockStatus::kInfra, "device_memory", said);
      break;
    case kExitOutput:
      return failed(BlockStatus::kCrash, "not_dense", said);
    case kExitExtension:
      return failed(
          BlockStatus::kCrash, "late_extension",
          "it asks for an extension that its build did not have: call load_inline when the module is "
          "imported, or when its entry is made");
    case kExitFault + SIGSEGV:
    case kExitFault + SIGBUS:
      // Before it is ready, and on a GPU, its address space has no inputs.
      if (const auto window = control().window_address.load(), at = control().fault_address.load() - window;
          window != 0 && at < shape().inputs.bytes)
        return failed(
            BlockStatus::kCrash, "input_written",
            fmt::format("it wrote to the input '{}', which is read-only: compute into a new tensor, or in "
                        "a clone()",
                        input_at(at)));
      return failed(BlockStatus::kCrash, "segfault", "it accessed memory that it must not");
    case kExitFault + SIGILL:
      return failed(BlockStatus::kCrash, "illegal_instruction",
                    "an instruction that this machine does not have");
    case kExitFault + SIGFPE:
      return failed(BlockStatus::kCrash, "arithmetic", "an integer division by zero or overflow");
    default:
      break;
  }
  return failed(BlockStatus::kTampered, "exit", fmt::format("it ended its process with code {}", code));
}

Result<HostProcess*> HostHousehold::choose(std::size_t section, const BlockRequest& request) {
  std::erase_if(processes_, [](const auto& process) { return !process->works(); });
  for (const auto& process : processes_)
    if (process->may_go_on(section, request)) return process.get();
  for (const auto& process : processes_)
    if (!process->lives()) return process.get();
  if (processes_.size() == most_) return processes_.front().get();
  const std::size_t first = processes_.size();
  while (processes_.size() < most_) {
    LATHE_TRY(processes_.emplace_back(), HostProcess::open(program_));
  }
  for (std::size_t i = first + 1; i < processes_.size(); ++i) {
    BlockRequest other = request;
    other.poison = static_cast<std::uint8_t>(~request.poison ^ 0x55);  // its memory is full of another one
    LATHE_CHECK_OK(processes_[i]->begin(section, other));
  }
  return processes_[first].get();
}

Status HostHousehold::begin_held(std::size_t section) {
  BlockRequest request;
  request.timed = true;
  LATHE_TRY(HostProcess* const process, choose(section, request));
  return process->lives() ? Status(Ok{}) : process->begin(section, request, true);
}

Status HostHousehold::renew() {
  if (fresh_) return Ok{};
  fresh_ = true;
  BlockRequest request;
  request.timed = true;
  for (const auto& process : processes_)
    if (process->lives() && process->works()) {
      (void)process->end();
      LATHE_CHECK_OK(process->begin(0, request));
    }
  return Ok{};
}

BlockOutcome HostHousehold::run(std::size_t section, const BlockRequest& request) {
  fresh_ = false;
  const auto& last_timed = program_->options.last_timed_ns;
  if (request.timed && last_timed) last_timed->store(steady_clock().now_ns());
  const auto process = choose(section, request);
  if (!process.ok()) return failed(BlockStatus::kInfra, "open", process.error().to_string());
  BlockOutcome outcome = (*process)->run(section, request);
  if (request.timed && last_timed) last_timed->store(steady_clock().now_ns());
  return outcome;
}

CallProfile HostHousehold::profile(std::size_t section, const ProfileRequest& request) const {
  auto watched = std::make_shared<HostProcess::Program>(*program_);
  watched->options.watched = true;
  const auto process = HostProcess::open(std::move(watched));
  if (!process.ok()) return {{}, {process.error().to_string()}};
  BlockRequest block;
  block.trials = request.trials;
  block.cancel = request.cancel;
  const BlockOutcome outcome = (*process)->run(section, block);
  if (outcome.status != BlockStatus::kOk)
    return {{}, {fmt::format("its kernels were not seen: {} {}", outcome.reason, outcome.detail)}};
  auto counters = read_activity((*process)->said(), static_cast<double>(request.trials.size()));
  if (!counters.ok()) return {{}, {counters.error().to_string()}};
  return {*std::move(counters),
          {"whose kernels computed says the candidate's own process, which could forge it"}};
}

}  // namespace lathe::host
