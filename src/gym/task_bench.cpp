#include "gym/task_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "candidate/launch_program.h"
#include "gym/cancellable.h"
#include "gym/profile_stage.h"
#include "task/slices.h"

namespace lathe {
namespace {

constexpr double kSmallFlops = 3e7;  // a shape this small is verified on every distribution
constexpr double kHiddenFlops = 2e7;
constexpr double kTimedBlockNs = 1.2e6;  // what the trials of a timing workload should fill
constexpr int kMaxTrials = 96;
constexpr int kScreenTrials = 32;  // each costs a screen's process its share of mapping memory

/// Adds its lifetime to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += static_cast<double>(steady_clock().now_ns() - begin_ns_) * 1e-9; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::int64_t begin_ns_ = steady_clock().now_ns();
};

}  // namespace

Result<std::unique_ptr<TaskBench>> TaskBench::create(const TaskSpec& task, Backend& backend,
                                                     const EvaluatorOptions& options, EventSink& events) {
  std::unique_ptr<TaskBench> bench(new TaskBench(task, backend, options));
  ProductEngine* const products = backend.products();
  LATHE_TRY(auto reference, make_reference(bench->spec_, products));
  reference = make_sliced(std::move(reference), bench->spec_, products != nullptr);
  bench->reference_ = make_cancellable(std::move(reference), options.cancel);
  LATHE_CHECK_OK(bench->make_shapes());
  LATHE_CHECK_OK(bench->add_baselines(events));
  bench->summarise_baselines();
  bench->report_preparation(events);
  return bench;
}

Status TaskBench::make_shapes() {
  const Stopwatch watch(preparation_["references"]);
  const Seed seed = options_.secret.derive("shapes");
  for (const NamedShape& shape : spec_.shapes)
    LATHE_CHECK_OK(add_shape(shape.dims, false, seed.derive("scored", shapes_.size())));
  for (const Dims& dims :
       draw_hidden_shapes(spec_, seed.derive("hidden"), options_.hidden_shapes, kHiddenFlops))
    LATHE_CHECK_OK(add_shape(dims, true, seed.derive("hidden", shapes_.size())));
  return Ok{};
}

Status TaskBench::add_shape(const Dims& dims, bool hidden, const Seed& seed) {
  BenchShape shape;
  shape.name = shape_name(dims, spec_);
  shape.hidden = hidden;
  LATHE_TRY(shape.task, lathe::bind(spec_, dims));
  LATHE_TRY(shape.verify, make_verify_workload(backend_, *reference_, shape.task, seed,
                                               hidden || shape.task.flops < kSmallFlops));
  shapes_.push_back(std::move(shape));
  return Ok{};
}

Status TaskBench::measure_rms(BenchShape& shape) {
  const BuiltCandidate naive = build_for_shapes(backend_, naive_, {&shape, 1});
  if (!naive.finding.passed())
    return Error{ErrorCode::kInternal, "the naive build fails: " + naive.finding.detail};
  LATHE_TRY(auto session, backend_.open(naive_, naive.artifacts[0], shape.verify));
  LATHE_TRY(shape.rms, measure_naive_rms(*session, *shape.verify, options_.block_timeout_seconds));
  return Ok{};
}

/// How many trials a shape needs depends on how fast its kernels are, which only the naive build can tell
/// yet.
Status TaskBench::make_timing_data(const BuiltCandidate& naive) {
  const Stopwatch watch(preparation_["timing_data"]);
  for (std::size_t i = 0; i < spec_.shapes.size(); ++i) {
    BenchShape& shape = shapes_[i];
    LATHE_TRY(auto session, backend_.open(naive.candidate, naive.artifacts[i], shape.verify));
    TimingRule rule;
    rule.timeout_seconds = options_.block_timeout_seconds;
    const QuickTime quick = time_quickly(*session, *shape.verify, rule, options_.secret.derive("naive", i));
    if (!quick.finding.passed())
      return Error{ErrorCode::kInternal, "the naive build fails: " + quick.finding.detail};
    const double best_ns = quick.call_ns / backend_.device().best_over_naive;
    shape.final_trials = static_cast<int>(
        std::clamp(std::ceil(kTimedBlockNs / best_ns), 2.0, static_cast<double>(kMaxTrials)));
    LATHE_TRY(shape.timing,
              make_timing_workload(backend_, *reference_, shape.task, options_.secret.derive("data", i),
                                   std::min(shape.final_trials, kScreenTrials), {}));
    LATHE_TRY(session, backend_.open(naive.candidate, naive.artifacts[i], shape.timing));
    LATHE_TRY(shape.timing_rms, measure_naive_rms(*session, *shape.timing, options_.block_timeout_seconds));
    timers_.push_back(std::make_unique<ShapeTimer>(
        backend_, *reference_, shape, options_.secret.derive("timer", i), options_.block_timeout_seconds));
  }
  return Ok{};
}

Status TaskBench::add_baselines(EventSink& events) {
  LATHE_TRY(auto baselines, make_baselines(spec_, dialect_of(backend_.device())));
  const std::size_t peers = baselines.size();
  for (const Candidate& anchor : options_.anchors) baselines.push_back({"anchor " + anchor.name, anchor});
  for (std::size_t b = 0; b < baselines.size(); ++b) {
    const Baseline& baseline = baselines[b];
    BuiltCandidate built;
    {
      const Stopwatch watch(preparation_["build"]);
      built = build_for_shapes(backend_, baseline.candidate, shapes_);
    }
    Finding finding = built.finding;
    const bool naive = timers_.empty();
    if (naive && !finding.passed())
      return Error{ErrorCode::kInternal, fmt::format("the naive build of '{}' fails: {} {}", spec_.name,
                                                     finding.reason, finding.detail)};
    if (naive) {
      naive_ = baseline.candidate;
      {
        const Stopwatch watch(preparation_["rms"]);
        for (BenchShape& shape : shapes_) LATHE_CHECK_OK(measure_rms(shape));
      }
      LATHE_CHECK_OK(make_timing_data(built));
    }
    backend_.rest();
    Evidence evidence;
    {
      const Stopwatch watch(preparation_["verify"]);
      if (finding.passed()) finding = verify(built, evidence);
    }
    const Stopwatch watch(preparation_["time"]);
    for (std::size_t i = 0; i < timers_.size() && finding.passed(); ++i)
      finding = timers_[i]->add_anchor(baseline.name, b < peers, baseline.candidate, built.artifacts[i]);
    if (naive && !finding.passed())
      return Error{ErrorCode::kInternal, fmt::format("the naive build of '{}' fails: {} {}", spec_.name,
                                                     finding.reason, finding.detail)};
    if (!finding.passed())
      events.on_event(
          {Severity::kWarning,
           "baseline.dropped",
           fmt::format("baseline {} is left out: {} {}", baseline.name, finding.reason, finding.detail),
           {{"baseline", baseline.name}}});
  }
  return Ok{};
}

void TaskBench::report_preparation(EventSink& events) const {
  Event event{Severity::kDebug, "gym.prepared", "prepared", {}};
  for (const auto& [part, seconds] : preparation_) event.fields[part] = fmt::format("{:.3f}", seconds);
  events.on_event(event);
}

void TaskBench::summarise_baselines() {
  double best_ns = 0;
  for (const Anchor& first : timers_.front()->anchors()) {
    if (!first.peer) continue;
    BaselineTime time;
    time.name = first.name;
    std::vector<double> medians;
    for (const auto& timer : timers_)
      for (const Anchor& anchor : timer->anchors())
        if (anchor.name == first.name) {
          const std::string& shape = shapes_[time.timings.size()].name;
          time.timings.push_back({shape, anchor.call_ns, anchor.spread, anchor.pairs, kTieRounds});
          medians.push_back(anchor.call_ns);
        }
    time.median_ns = geometric_mean(medians);
    if (best_baseline_.empty() || time.median_ns < best_ns) {
      best_baseline_ = time.name;
      best_ns = time.median_ns;
    }
    baselines_.push_back(std::move(time));
  }
}

bool TaskBench::covers(const Candidate& candidate, const BenchShape& shape) const {
  const auto program = compile_plan(candidate, shape.task, backend_.device().facts);
  return program.ok() || program.error().code != ErrorCode::kUnavailable;
}

Finding TaskBench::verify(const BuiltCandidate& built, Evidence& evidence) {
  const Seed secret = options_.secret.derive("candidate", ++evaluated_);
  int covered = 0;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!covers(built.candidate, shapes_[i])) continue;
    if (!shapes_[i].hidden) ++covered;
    auto session = backend_.open(built.candidate, built.artifacts[i], shapes_[i].verify);
    if (!session.ok()) {
      const Error& error = session.error();
      const bool faulty = error.code == ErrorCode::kInvalid;
      return {faulty ? Outcome::kBuildFailed : Outcome::kInfra,
              faulty ? error.message.substr(0, error.message.find(':')) : "open", error.to_string()};
    }
    Finding finding = verify_shape(**session, shapes_[i], secret.derive("shape", i),
                                   options_.block_timeout_seconds, evidence);
    if (!finding.passed()) return finding;
  }
  if (covered == 0) return {Outcome::kBuildFailed, "domain", "`requires` excludes every scored shape"};
  return {};
}

Finding TaskBench::time(const BuiltCandidate& built, Depth depth, Verdict& verdict) {
  Finding suspicion;
  for (std::size_t i = 0; i < timers_.size(); ++i) {
    if (!covers(built.candidate, shapes_[i])) continue;
    ShapeTiming timed = depth == Depth::kScreen ? timers_[i]->screen(built.candidate, built.artifacts[i])
                                                : timers_[i]->final(built.candidate, built.artifacts[i]);
    if (timed.finding.outcome == Outcome::kSuspect)
      suspicion = timed.finding;
    else if (!timed.finding.passed())
      return timed.finding;
    verdict.timings.push_back(std::move(timed.timing));
    if (timed.unseen_over_usual > 0) {
      double& longest = verdict.profile["unseen_over_usual"];
      longest = std::max(longest, timed.unseen_over_usual);
    }
    for (Speedup& speedup : timed.speedups) verdict.speedups.push_back(std::move(speedup));
  }
  if (suspicion.passed() && depth == Depth::kScreen) return {};
  // Hidden shapes are the same for a whole run, which a patient policy could learn: a final draws new ones.
  // Algebra may be real: what is too fast for the textbook must hold there, and on all shapes' fresh inputs.
  const Finding again = reverify(built, verdict.evidence, !suspicion.passed());
  if (!again.passed()) return again;
  if (suspicion.passed()) return {};
  if (depth == Depth::kScreen) return suspicion;
  return {Outcome::kPass, "ok", suspicion.detail + "; verified again on fresh shapes and inputs"};
}

void TaskBench::profile(const BuiltCandidate& built, Verdict& verdict) {
  for (std::size_t i = 0; i < timers_.size(); ++i) {
    if (!covers(built.candidate, shapes_[i])) continue;
    const auto timed = std::find_if(verdict.timings.begin(), verdict.timings.end(),
                                    [&](const Timing& timing) { return timing.shape == shapes_[i].name; });
    const double call_ns = timed == verdict.timings.end() ? 0 : timed->median_ns;
    verdict.profiles.push_back(
        profile_shape(backend_, built.candidate, built.artifacts[i], shapes_[i], call_ns));
  }
}

Finding TaskBench::reverify(const BuiltCandidate& built, Evidence& evidence, bool scored_too) {
  const Seed seed = options_.secret.derive("reverify", ++reverified_);
  std::vector<Dims> fresh = draw_hidden_shapes(spec_, seed, options_.hidden_shapes, kHiddenFlops);
  for (const NamedShape& shape : spec_.shapes)
    if (scored_too) fresh.push_back(shape.dims);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    BenchShape shape;
    shape.name = shape_name(fresh[i], spec_);
    shape.hidden = true;
    auto bound = lathe::bind(spec_, fresh[i]);
    if (!bound.ok()) return {Outcome::kInfra, "reverify", bound.error().to_string()};
    shape.task = *std::move(bound);
    if (!covers(built.candidate, shape)) continue;
    auto workload = make_verify_workload(backend_, *reference_, shape.task, seed.derive("inputs", i), true);
    if (!workload.ok()) return {Outcome::kInfra, "reverify", workload.error().to_string()};
    shape.verify = *std::move(workload);
    if (const Status measured = measure_rms(shape); !measured.ok())
      return {Outcome::kInfra, "reverify", measured.error().to_string()};
    const BuiltCandidate rebuilt = build_for_shapes(backend_, built.candidate, {&shape, 1});
    if (!rebuilt.finding.passed()) return rebuilt.finding;
    auto session = backend_.open(built.candidate, rebuilt.artifacts[0], shape.verify);
    if (!session.ok()) return {Outcome::kInfra, "reverify", session.error().to_string()};
    Finding finding =
        verify_shape(**session, shape, seed.derive("secret", i), options_.block_timeout_seconds, evidence);
    if (!finding.passed()) return finding;
  }
  return {};
}

void TaskBench::inspect(const BuiltCandidate& built, Verdict& verdict) {
  if (!built.candidate.has_kernels() || built.artifacts.empty()) return;
  auto facts = backend_.inspect(built.artifacts.front());
  if (facts.ok())
    verdict.build.facts.merge(*facts);
  else
    verdict.build.log += fmt::format("\nnote: {}", facts.error().to_string());
}

Verdict TaskBench::evaluate(const BuiltCandidate& built, Depth depth, QuietGate& gate) {
  Verdict verdict;
  verdict.depth = depth;
  verdict.candidate = built.candidate.digest;
  verdict.task = spec_.digest;
  verdict.build = built.facts;
  if (built.finding.passed() && (options_.inspect_code || depth == Depth::kFinal || depth == Depth::kProfile))
    inspect(built, verdict);
  const auto stage = [&](const char* name, auto&& work) {
    const Stopwatch watch(verdict.stage_seconds[name]);
    return work();
  };
  Finding finding = built.finding;
  if (finding.passed() && depth != Depth::kBuild)
    finding = stage("verify", [&] { return verify(built, verdict.evidence); });
  if (finding.passed() && depth != Depth::kBuild && depth != Depth::kVerify) {
    const QuietGate::Lease quiet(gate, true);
    const std::int64_t begin_ns = steady_clock().now_ns();
    finding = stage("time", [&] { return time(built, depth, verdict); });
    verdict.profile.merge(backend_.device_state(begin_ns, steady_clock().now_ns()));
    if (finding.passed() && depth == Depth::kProfile)
      stage("profile", [&] { return profile(built, verdict), Finding{}; });
  }
  backend_.rest();
  verdict.outcome = finding.outcome;
  verdict.reason = finding.reason;
  verdict.detail = finding.detail;
  return verdict;
}

}  // namespace lathe
