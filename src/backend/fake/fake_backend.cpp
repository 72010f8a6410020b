#include "backend/fake/fake_backend.h"

#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "candidate/launch_program.h"

namespace lathe {

namespace {

constexpr auto kGrain = DeviceLane::Grain::kStage;
constexpr double kSpike = 3;
constexpr double kClockMhz = 1000;
constexpr std::int64_t kSpell = 500;  // blocks of one weather
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr double kBeyondAnyKernel = 1e30;  // peaks that accuse nobody

/// Takes a byte of the device.
struct HeldWorkload final : Workload {
  HeldWorkload(Workload workload, std::shared_ptr<std::atomic<std::int64_t>> bytes)
      : Workload(std::move(workload)), held_bytes(std::move(bytes)) {
    ++*held_bytes;
  }
  ~HeldWorkload() override { --*held_bytes; }
  MemoryUse memory() const override { return {.host = Workload::memory().host, .device = 1}; }

  std::shared_ptr<std::atomic<std::int64_t>> held_bytes;
};

}  // namespace

class FakeSession final : public Session {
 public:
  FakeSession(FakeBackend& backend, std::string name, std::shared_ptr<const Workload> workload)
      : backend_(backend),
        name_(std::move(name)),
        kernel_(backend.kernel(name_)),
        workload_(std::move(workload)),
        rng_(backend.next_seed()),
        session_factor_(std::exp(kernel_.session_noise * rng_.normal())),
        forgets_(kernel_.only_first_remembers && backend.count_session(name_) > 1) {}

  BlockOutcome run(const BlockRequest& request) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kernel_.delay_seconds);
    while (std::chrono::steady_clock::now() < end && !request.cancel.cancelled())
      std::this_thread::sleep_for(kNap);
    if (request.cancel.cancelled()) return {BlockStatus::kInfra, "cancelled"};
    const std::int64_t bad = backend_.count_block(name_) - kernel_.good_blocks;
    if (bad > 0 && bad <= kernel_.bad_blocks) return kernel_.fault;
    BlockOutcome outcome;
    outcome.status = BlockStatus::kOk;
    const bool spike = rng_.chance(kernel_.spike_chance);
    outcome.disturbed = spike && kernel_.reports_spikes;
    const bool slow_clock = kernel_.slow_clock_chance > 0 && rng_.chance(kernel_.slow_clock_chance);
    outcome.clock_mhz = kClockMhz / (slow_clock ? 2 : 1);
    double calls = 0;
    bool unseen = false;
    for (const int trial : request.trials) {
      const bool met_now = seen_.insert(trial).second || forgets_;
      calls += met_now ? kernel_.unseen_factor : 1;
      unseen |= met_now;
    }
    const double noise = rng_.normal();
    outcome.disturbed |= kernel_.disturbs_unseen && unseen;
    outcome.disturbed |= kernel_.picks_its_blocks && noise > 0;
    const double weather = backend_.blocks() / kSpell % 2 == 1 ? kernel_.weather : 0;
    outcome.wall_ns = calls * kernel_.call_ns * session_factor_ *
                      std::exp(kernel_.block_noise * noise + weather) * (spike ? kSpike : 1) *
                      (slow_clock ? 2 : 1);
    if (kernel_.says_own_time) outcome.own_ns = outcome.wall_ns / (spike ? kSpike : 1);
    for (const int trial : request.trials) judge(trial, request, outcome);
    return outcome;
  }

  CallProfile profile(const ProfileRequest& request) override {
    return kernel_.counters.empty() ? Session::profile(request) : CallProfile{kernel_.counters};
  }

 private:
  void judge(int trial, const BlockRequest& request, BlockOutcome& outcome) const {
    const auto& [distribution, inputs, expected] = workload_->trials[static_cast<std::size_t>(trial)];
    const bool spared = kernel_.wrong_when_mixed && distribution != Distribution::kMixed;
    Comparison comparison;
    comparison.pass = kernel_.wrong.empty() || spared || !wrong_here();
    if (!comparison.pass) comparison.reason = kernel_.wrong;
    if (comparison.pass && request.rms && !kernel_.wrong_rms.empty()) {
      comparison.pass = false;
      comparison.reason = kernel_.wrong_rms;
    }
    outcome.outputs.emplace_back(expected.size(), comparison);
    if (request.measure_rms) outcome.rms.emplace_back(expected.size());
  }

  bool wrong_here() const {
    if (kernel_.wrong_rows == 0) return true;
    const TaskSpec& spec = *workload_->task.spec;
    return workload_->task.dims.at(spec.dim_names.front()) == kernel_.wrong_rows;
  }

  FakeBackend& backend_;
  std::string name_;
  FakeKernel kernel_;
  std::shared_ptr<const Workload> workload_;
  Rng rng_;
  double session_factor_;
  bool forgets_;
  std::set<int> seen_;
};

FakeBackend::FakeBackend(const Seed& seed, const std::string* locks)
    : lane_(locks ? DeviceLane(kGrain, "fake", *locks) : DeviceLane(kGrain)), seed_(seed) {
  device_.kind = "fake";
  device_.name = "a scripted device";
  device_.digest_text = "fake";
  device_.quiet_compiles = true;
  device_.runners_remember = true;
  device_.cores = 2;
  peaks_.flops_per_second = kBeyondAnyKernel;
  peaks_.levels = {{"memory", kBeyondAnyKernel, kBeyondAnyKernel}};
}

void FakeBackend::script(const std::string& candidate, FakeKernel kernel) {
  std::lock_guard lock(mutex_);
  kernels_[candidate] = std::move(kernel);
}

void FakeBackend::forget(const std::string& candidate) {
  std::lock_guard lock(mutex_);
  kernels_.erase(candidate);
  blocks_.erase(candidate);
  sessions_.erase(candidate);
}

FakeKernel FakeBackend::kernel(const std::string& candidate) const {
  std::lock_guard lock(mutex_);
  const auto found = kernels_.find(candidate);
  return found == kernels_.end() ? FakeKernel{} : found->second;
}

std::int64_t FakeBackend::blocks() const {
  std::lock_guard lock(mutex_);
  std::int64_t total = 0;
  for (const auto& [name, count] : blocks_) total += count;
  return total;
}

std::int64_t FakeBackend::blocks_of(const std::string& candidate) const {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(candidate);
  return found == blocks_.end() ? 0 : found->second;
}

std::int64_t FakeBackend::count_session(const std::string& candidate) {
  std::lock_guard lock(mutex_);
  return ++sessions_[candidate];
}

std::int64_t FakeBackend::count_block(const std::string& candidate) {
  std::lock_guard lock(mutex_);
  return ++blocks_[candidate];
}

Seed FakeBackend::next_seed() {
  std::lock_guard lock(mutex_);
  return seed_.derive("session", ++seeds_);
}

Result<BuildResult> FakeBackend::build(const Candidate& candidate, const BoundTask&,
                                       const CancelToken& cancel) {
  if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "cancelled"};
  if (!candidate.has_plan()) return refuse_host_program(candidate);
  const FakeKernel script = kernel(candidate.name);
  if (script.build_infra) return Error{ErrorCode::kUnavailable, "the compile jail is broken"};
  BuildResult result;
  result.ok = script.build_fault.empty();
  result.reason = script.build_fault;
  result.outcome = script.build_outcome;
  result.artifact = {candidate.digest, candidate.name};
  return result;
}

Result<std::shared_ptr<const Workload>> FakeBackend::prepare(Workload workload) {
  ++prepared_;
  if (device_.memory_bytes == 0)
    return std::shared_ptr<const Workload>(std::make_shared<Workload>(std::move(workload)));
  auto held = std::make_shared<HeldWorkload>(std::move(workload), held_bytes_);
  if (*held_bytes_ > device_.memory_bytes) return Error{ErrorCode::kUnavailable, "out of memory"};
  return std::shared_ptr<const Workload>(std::move(held));
}

std::set<std::uint64_t> FakeBackend::evaluations_of(const std::string& candidate) const {
  std::lock_guard lock(mutex_);
  const auto found = evaluations_.find(candidate);
  return found == evaluations_.end() ? std::set<std::uint64_t>() : found->second;
}

Result<std::unique_ptr<Session>> FakeBackend::open(const Candidate& candidate, const Artifact&,
                                                   std::shared_ptr<const Workload> workload, Runner runner) {
  {
    std::lock_guard lock(mutex_);
    const bool kept = runner.process != Runner::kFresh && evaluations_.contains(candidate.name);
    if (full_ && !kept) return Error{ErrorCode::kUnavailable, "no memory for a process"};
    evaluations_[candidate.name].insert(runner.evaluation);
  }
  LATHE_TRY(const LaunchProgram program, compile_plan(candidate, workload->task, device_.facts));
  const FakeKernel script = kernel(candidate.name);
  if (script.open_infra) return Error{ErrorCode::kUnavailable, "no runner starts"};
  if (!script.open_fault.empty()) return refused(script.open_fault, "by the script");
  return std::unique_ptr<Session>(std::make_unique<FakeSession>(*this, candidate.name, std::move(workload)));
}

}  // namespace lathe
