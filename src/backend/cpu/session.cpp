#include "backend/cpu/session.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/crash_text.h"
#include "base/processors.h"

namespace lathe {
namespace {

constexpr int kSamples = 64;
constexpr int kWitnesses = 4;
constexpr int kSwitchesAllowed = 3;  // an exiting process has one or two; one more is tolerable
constexpr std::int64_t kReadyTimeoutNs = 20'000'000'000;
constexpr std::int64_t kAfterDoneTimeoutNs = 200'000'000;
constexpr int kReplyTimeoutMs = 10'000;

BlockOutcome failed(BlockStatus status, std::string reason, std::string detail) {
  return {status, std::move(reason), std::move(detail)};
}

}  // namespace

Result<std::unique_ptr<CpuSession>> CpuSession::open(HelperProcess runner, const protocol::Load& load,
                                                     const Artifact& artifact,
                                                     std::shared_ptr<const CpuWorkload> workload,
                                                     const SessionOptions& options) {
  std::unique_ptr<CpuSession> session(new CpuSession(std::move(runner), std::move(workload), options));
  LATHE_TRY(session->control_fd_, make_memfd("control", kPageBytes));
  LATHE_TRY(session->control_, map_shared(session->control_fd_, kPageBytes, true));
  session->has_counters_ = std::any_of(load.scratch.begin(), load.scratch.end(), [](const auto& scratch) {
    return scratch.fill == protocol::ScratchFill::kCounter;
  });
  session->has_library_steps_ =
      std::any_of(load.steps.begin(), load.steps.end(), [](const auto& step) { return step.is_node; });
  LATHE_TRY(const UniqueFd payload, make_sealed_memfd("load", protocol::encode(load)));
  std::vector<int> fds = {payload.get(), session->control_fd_.get(),
                          session->workload_->read_only_inputs().get(),
                          session->workload_->output_memory().get()};
  UniqueFd object;
  if (!artifact.bytes.empty()) {
    LATHE_TRY(object, make_sealed_memfd("artifact", artifact.bytes));
    fds.push_back(object.get());
  }
  LATHE_CHECK_OK(session->runner_.channel().send("load", fds));
  LATHE_TRY(const Frame frame, session->runner_.channel().receive(kReplyTimeoutMs));
  LATHE_TRY(const auto reply, protocol::decode_load_reply(frame.bytes));
  if (!reply.ok) return protocol::error_of(reply);
  return session;
}

bool CpuSession::reply_waits() const {
  pollfd waiting{runner_.channel().fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

bool CpuSession::wait_for(const std::atomic<std::uint32_t>& flag, std::uint32_t value, const Limit& limit,
                          std::vector<Witness>* witnesses) const {
  const bool spin = &flag != &control().ready && !options_.broker_cpus.empty();
  for (;;) {
    if (!spin) {
      pollfd waiting{runner_.channel().fd(), POLLIN, 0};
      const timespec nap{0, 20'000};
      ::ppoll(&waiting, 1, &nap, nullptr);
    }
    for (int i = 0; i < 4096; ++i) {
      if (flag.load(std::memory_order_acquire) >= value) return true;
      if (witnesses) watch(*witnesses);
      if (!spin) break;
      _mm_pause();
    }
    if (steady_clock().now_ns() > limit.deadline_ns || limit.cancel.cancelled() || reply_waits())
      return flag.load(std::memory_order_acquire) >= value;
  }
}

CpuSession::Sample CpuSession::draw_sample(int trial, Rng& rng) const {
  Sample sample;
  sample.trial = trial;
  sample.output = static_cast<int>(rng.below(workload_->outputs().sizes.size()));
  const std::size_t size = workload_->output(trial, sample.output).size();
  sample.size = std::min(sample.bytes.size(), size);
  sample.offset = rng.below(size - sample.size + 1);
  return sample;
}

void CpuSession::take(Sample& sample) const {
  std::memcpy(sample.bytes.data(), workload_->output(sample.trial, sample.output).data() + sample.offset,
              sample.size);
}

bool CpuSession::changed(const Sample& sample) const {
  return std::memcmp(workload_->output(sample.trial, sample.output).data() + sample.offset,
                     sample.bytes.data(), sample.size) != 0;
}

/// Draws the sampled places before the clock starts, so that copying them costs next to nothing
/// when it stops.
CpuSession::Wait CpuSession::prepare_wait(const BlockRequest& request) const {
  Rng rng(Seed::from_number(request.secret).derive("samples"));
  Wait wait;
  for (int i = 0; i < kSamples; ++i)
    wait.samples.push_back(draw_sample(request.trials[rng.below(request.trials.size())], rng));
  if (request.trials.size() < 2) return wait;
  for (int i = 0; i < kWitnesses; ++i) {
    const std::size_t later = 1 + rng.below(request.trials.size() - 1);
    Witness& witness = wait.witnesses.emplace_back();
    witness.later = draw_sample(request.trials[later], rng);
    witness.earlier = draw_sample(request.trials[rng.below(later)], rng);
    take(witness.later);
  }
  return wait;
}

void CpuSession::watch(std::vector<Witness>& witnesses) const {
  for (Witness& witness : witnesses) {
    if (witness.seen || !changed(witness.later)) continue;
    take(witness.earlier);
    witness.seen = true;
  }
}

CpuSession::Wait CpuSession::run_calls(const BlockRequest& request) const {
  Wait wait = prepare_wait(request);
  const auto now = [] { return steady_clock().now_ns(); };
  if (!wait_for(control().ready, 1, {now() + kReadyTimeoutNs, request.cancel})) {
    wait.died = true;
    return wait;
  }
  wait.switches_before = control().switches_before.load(std::memory_order_relaxed);
  const auto timeout_ns = static_cast<std::int64_t>(request.timeout_seconds * 1e9);
  wait.begin_ns = now();
  control().go.store(1, std::memory_order_release);
  wait.done = wait_for(control().done, 1, {wait.begin_ns + timeout_ns, request.cancel}, &wait.witnesses);
  // The clock runs until the outputs have been sampled: writes before that cost time, writes after
  // that are detected.
  for (Sample& sample : wait.samples) take(sample);
  wait.end_ns = now();
  if (!wait.done) {
    wait.died = reply_waits();
    return wait;
  }
  if (has_counters_) wait_for(control().done, 2, {now() + kAfterDoneTimeoutNs, request.cancel});
  return wait;
}

BlockOutcome CpuSession::run(const BlockRequest& request) {
  if (broken_) return failed(BlockStatus::kInfra, "runner_lost", "the runner ended unexpectedly");
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  const ThreadPlacement placement(options_.broker_cpus);
  std::memset(control_.data(), 0, control_.size());
  protocol::Block block;
  block.poison = request.poison;
  for (const int trial : request.trials) {
    workload_->reset_outputs(trial, request.poison);
    block.trials.push_back(static_cast<std::uint32_t>(trial));
  }
  broken_ = true;
  if (const auto sent = runner_.channel().send(protocol::encode(block)); !sent.ok())
    return failed(BlockStatus::kInfra, "runner_lost", sent.error().message);
  const Wait wait = run_calls(request);
  (void)runner_.channel().send(protocol::kKill);
  const auto frame = runner_.channel().receive(kReplyTimeoutMs);
  if (!frame.ok()) return failed(BlockStatus::kInfra, "runner_lost", frame.error().message);
  const auto reply = protocol::decode_block_reply(frame->bytes);
  if (!reply.ok()) return failed(BlockStatus::kInfra, "runner_lost", reply.error().message);
  broken_ = false;
  if (request.cancel.cancelled()) return failed(BlockStatus::kInfra, "cancelled", "");
  if (reply->no_process)
    return failed(BlockStatus::kInfra, "no_processes", "the system starts no more processes");
  return judge(request, wait, *reply);
}

BlockOutcome CpuSession::judge(const BlockRequest& request, const Wait& wait,
                               const protocol::BlockReply& reply) const {
  if (!wait.done && wait.died) return describe_death(request, wait, reply);
  if (!wait.done)
    return failed(BlockStatus::kTimeout, "timeout",
                  fmt::format("not finished after {:.1f} s", request.timeout_seconds));
  if (!WIFSIGNALED(reply.wait_status) || WTERMSIG(reply.wait_status) != SIGKILL)
    return describe_death(request, wait, reply);
  BlockOutcome outcome;
  outcome.status = BlockStatus::kOk;
  outcome.wall_ns = time_of_calls(static_cast<double>(wait.end_ns - wait.begin_ns), options_);
  outcome.disturbed = reply.involuntary_switches > wait.switches_before + kSwitchesAllowed;
  if (const auto code = control().library_error.load(); code != 0) {
    if (!has_library_steps_)
      return failed(BlockStatus::kTampered, "control_written", "the kernel wrote to the control page");
    return failed(BlockStatus::kInfra, "library_error", fmt::format("a library call returned {}", code));
  }
  if (control().counter_dirty.load() != 0)
    return failed(BlockStatus::kCrash, "counter_dirty",
                  "a counter buffer was not zero after the call: a kernel must set it back to zero");
  if (std::any_of(wait.samples.begin(), wait.samples.end(),
                  [&](const auto& sample) { return changed(sample); }))
    return failed(BlockStatus::kTampered, "late_write",
                  "outputs changed after the kernel had reported completion");
  if (std::any_of(wait.witnesses.begin(), wait.witnesses.end(),
                  [&](const auto& witness) { return witness.seen && changed(witness.earlier); }))
    return failed(BlockStatus::kTampered, "early_write", "a call wrote the outputs of a later one");
  check_outputs(request, outcome);
  return outcome;
}

BlockOutcome CpuSession::describe_death(const BlockRequest& request, const Wait& wait,
                                        const protocol::BlockReply& reply) const {
  const int status = reply.wait_status;
  if (wait.begin_ns == 0)
    return failed(BlockStatus::kInfra, "not_ready", "the runner could not prepare a block");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
    return failed(BlockStatus::kTampered, "forbidden_syscall", "the kernel made a system call");
  if (WIFSIGNALED(status)) return describe_signal(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (code > protocol::kExitFault)
    return describe_fault(control(), code - protocol::kExitFault, *workload_, request.trials);
  if (code >= protocol::kExitSelfEnd && code < protocol::kExitSelfEnd + protocol::kSelfEnds)
    return describe_self_end(control(), static_cast<protocol::SelfEnd>(code - protocol::kExitSelfEnd));
  return failed(BlockStatus::kTampered, "exit",
                fmt::format("the kernel ended its process with code {}", code));
}

void CpuSession::check_outputs(const BlockRequest& request, BlockOutcome& outcome) const {
  for (const int trial : request.trials) {
    if (const auto overrun = workload_->overrun(trial)) {
      outcome = describe_overrun(*overrun, *workload_);
      return;
    }
    std::vector<std::span<const std::byte>> outputs;
    for (std::size_t i = 0; i < workload_->task.spec->outputs.size(); ++i)
      outputs.push_back(workload_->output(trial, static_cast<int>(i)));
    check_trial(*workload_, request, trial, outputs, outcome);
  }
}

}  // namespace lathe
