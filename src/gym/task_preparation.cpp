#include <fmt/format.h>

#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "base/parallel.h"
#include "gym/cancellable.h"
#include "gym/task_bench.h"
#include "task/slices.h"

namespace lathe {
namespace {

constexpr double kSmallFlops = 3e7;  // a shape this small is verified on every distribution
constexpr int kScreenTrials = 32;    // each costs a screen's process its share of mapping memory
constexpr std::int64_t kSteadyBytes = std::int64_t{1} << 30;

using Use = DeviceLane::Use;
using Grain = DeviceLane::Grain;

Error naive_fails(const TaskSpec& task, const Finding& finding) {
  return {ErrorCode::kInternal,
          fmt::format("the naive build of '{}' fails: {} {}", task.name, finding.reason, finding.detail)};
}

}  // namespace

Result<std::unique_ptr<TaskBench>> TaskBench::create(std::shared_ptr<const TaskSpec> task, Backend& backend,
                                                     const TaskBenchOptions& options,
                                                     const CancelToken& cancel, EventSink& events) {
  std::unique_ptr<TaskBench> bench(new TaskBench(std::move(task), options));
  ProductEngine* const products = backend.products();
  LATHE_TRY(auto reference, make_reference(*bench->spec_, products));
  bench->reference_ = make_sliced(std::move(reference), *bench->spec_, products != nullptr);
  CancellableBackend cancellable(backend, cancel);
  const auto cancellable_reference = make_cancellable(*bench->reference_, cancel);
  const Scope scope{cancellable, *cancellable_reference};
  Event prepared{Severity::kDebug, "gym.prepared", "prepared", {{"task", bench->spec_->name}}};
  const auto stage = [&](const char* name, auto&& work) -> Status {
    const auto begin_ns = steady_clock().now_ns();
    const Status done = work();
    prepared.fields[name] = fmt::format("{:.3f}", seconds_since(begin_ns));
    return done;
  };
  LATHE_TRY(std::vector<BuiltBaseline> baselines, bench->list_baselines(scope));
  LATHE_CHECK_OK(bench->bind_shapes());
  LATHE_CHECK_OK(stage("data and builds", [&] { return bench->make_data_and_build(scope, baselines); }));
  LATHE_CHECK_OK(stage("naive", [&] { return bench->measure_naive(scope, baselines.front().built); }));
  LATHE_CHECK_OK(stage("ties", [&] { return bench->tie_all(scope, baselines, cancel, events); }));
  bench->summarise_baselines();
  events.on_event(prepared);
  return bench;
}

std::int64_t TaskBench::host_bytes() const {
  std::int64_t bytes = 0;
  for (const BenchShape& shape : shapes_)
    for (const auto& workload : {shape.verify, shape.timing})
      if (workload) bytes += workload->host_bytes();
  return bytes;
}

Status TaskBench::bind_shapes() {
  const auto add = [&](const Dims& dims, bool hidden, bool large) -> Status {
    BenchShape& shape = shapes_.emplace_back();
    shape.name = shape_name(dims, *spec_);
    shape.hidden = hidden;
    shape.large = large;
    LATHE_TRY(shape.task, lathe::bind(*spec_, dims));
    return Ok{};
  };
  for (const NamedShape& shape : spec_->shapes) LATHE_CHECK_OK(add(shape.dims, false, false));
  for (const HiddenShape& shape : draw_hidden(options_.secret.derive("shapes").derive("hidden")))
    LATHE_CHECK_OK(add(shape.dims, true, shape.large));
  return Ok{};
}

/// Compilers and references keep different processors busy.
Status TaskBench::make_data_and_build(const Scope& scope, std::vector<BuiltBaseline>& baselines) {
  const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
  Status built = Ok{}, made = Ok{};
  {
    const std::jthread builder(
        [&] { built = without_exceptions([&]() -> Status { return build_all(scope, baselines), Ok{}; }); });
    made = make_data(scope);
  }
  LATHE_CHECK_OK(std::move(built));
  LATHE_CHECK_OK(std::move(made));
  const BuiltCandidate& naive = baselines.front().built;
  if (!naive.finding.passed()) return naive_fails(*spec_, naive.finding);
  naive_ = naive.candidate;
  return Ok{};
}

Status TaskBench::make_data(const Scope& scope) {
  const Seed seed = options_.secret.derive("shapes");
  return for_each_index(static_cast<int>(shapes_.size()), [&](int i) -> Status {
    const auto s = static_cast<std::size_t>(i);
    BenchShape& shape = shapes_[s];
    return make_verify_data(scope, seed.derive(shape.hidden ? "hidden" : "scored", s),
                            shape.hidden || shape.task.flops < kSmallFlops, shape);
  });
}

/// The naive build's own errors, and the timing data, whose size depends on how fast the naive build is.
Status TaskBench::measure_naive(const Scope& scope, const BuiltCandidate& naive) {
  const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
  return for_each_index(static_cast<int>(shapes_.size()), scope.backend.device().lanes, [&](int i) -> Status {
    const auto s = static_cast<std::size_t>(i);
    LATHE_CHECK_OK(measure_rms(scope, naive.artifacts[s], shapes_[s]));
    return shapes_[s].hidden ? Status(Ok{}) : make_timing_data(scope, naive, s);
  });
}

Status TaskBench::make_timing_data(const Scope& scope, const BuiltCandidate& naive, std::size_t s) {
  BenchShape& shape = shapes_[s];
  LATHE_TRY(auto session,
            scope.backend.open(naive.candidate, naive.artifacts[s], shape.verify, {Runner::kShared}));
  TimingRule rule;
  rule.timeout_seconds = options_.block_timeout_seconds;
  const QuickTime quick = time_quickly(*session, *shape.verify, rule, options_.secret.derive("naive", s));
  if (!quick.finding.passed()) return naive_fails(*spec_, quick.finding);
  const double best_ns = quick.call_ns / scope.backend.device().best_over_naive;
  shape.final_trials = trials_for_calls_of(best_ns);
  int trials = std::min(shape.final_trials, kScreenTrials);
  WorkloadOptions limits;
  if (scope.backend.device().steady) {
    LATHE_TRY(const DevicePeaks peaks, scope.backend.peaks());
    trials = steady_screen_trials(shape.task, peaks);
    limits.max_bytes = kSteadyBytes;
  }
  LATHE_TRY(shape.timing, make_timing_workload(scope.backend, scope.reference, shape.task,
                                               options_.secret.derive("data", s), trials, limits));
  LATHE_TRY(session,
            scope.backend.open(naive.candidate, naive.artifacts[s], shape.timing, {Runner::kShared}));
  LATHE_TRY(shape.timing_rms, measure_naive_rms(*session, *shape.timing, options_.block_timeout_seconds));
  return Ok{};
}

void TaskBench::build_all(const Scope& scope, std::vector<BuiltBaseline>& baselines) const {
  (void)for_each_index(static_cast<int>(baselines.size()), [&](int i) -> Status {
    BuiltBaseline& one = baselines[static_cast<std::size_t>(i)];
    one.built = build_for_shapes(scope.backend, one.built.candidate, shapes_);
    return Ok{};
  });
}

Finding TaskBench::tie(const Scope& scope, const BuiltBaseline& baseline, std::vector<Anchor>& tied) const {
  const Seed secret = options_.secret.derive("baseline " + baseline.name);
  const BuiltCandidate& built = baseline.built;
  Finding finding = built.finding;
  if (finding.passed()) {
    const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
    Evidence evidence;
    finding = verify(scope, built, runner_of_baseline(baseline.peer), secret, evidence);
  }
  if (!finding.passed()) return finding;
  tied.resize(anchors_.size());
  const DeviceLane::Lease lease = scope.backend.lease(Use::kTiming, Grain::kStage);
  std::vector<Finding> findings(anchors_.size());
  (void)for_each_index(static_cast<int>(anchors_.size()), scope.backend.device().lanes, [&](int i) -> Status {
    const auto s = static_cast<std::size_t>(i);
    TiedAnchor one = ShapeTimer(site(scope, s), anchors_[s], secret.derive("tie", s))
                         .tie(baseline.name, baseline.peer, built.candidate, built.artifacts[s]);
    findings[s] = std::move(one.finding);
    tied[s] = std::move(one.anchor);
    return Ok{};
  });
  for (Finding& one : findings)
    if (!one.passed()) return std::move(one);
  return {};
}

Result<std::vector<TaskBench::BuiltBaseline>> TaskBench::list_baselines(const Scope& scope) const {
  LATHE_TRY(auto own, make_baselines(*spec_, scope.backend.device().dialect));
  std::vector<BuiltBaseline> all;
  for (Baseline& baseline : own) all.push_back({baseline.name, true, {std::move(baseline.candidate)}});
  for (const Candidate& anchor : options_.anchors) all.push_back({"anchor " + anchor.name, false, {anchor}});
  return all;
}

Status TaskBench::tie_all(const Scope& scope, const std::vector<BuiltBaseline>& baselines,
                          const CancelToken& cancel, EventSink& events) {
  anchors_.resize(spec_->shapes.size());
  std::vector<Finding> findings(baselines.size());
  std::vector<std::vector<Anchor>> tied(baselines.size());
  const auto tie_one = [&](std::size_t b) { findings[b] = tie(scope, baselines[b], tied[b]); };
  tie_one(0);
  if (cancel.cancelled()) return cancelled_error();
  if (!findings[0].passed()) return naive_fails(*spec_, findings[0]);
  for (std::size_t s = 0; s < anchors_.size(); ++s) anchors_[s].push_back(std::move(tied[0][s]));
  (void)for_each_index(static_cast<int>(baselines.size()) - 1, scope.backend.device().lanes,
                       [&](int i) -> Status { return tie_one(static_cast<std::size_t>(i) + 1), Ok{}; });
  if (cancel.cancelled()) return cancelled_error();
  for (std::size_t b = 1; b < baselines.size(); ++b) {
    const std::string& name = baselines[b].name;
    if (findings[b].passed()) {
      for (std::size_t s = 0; s < anchors_.size(); ++s) anchors_[s].push_back(std::move(tied[b][s]));
      continue;
    }
    events.on_event(
        {Severity::kWarning,
         "baseline.dropped",
         fmt::format("baseline {} is left out: {} {}", name, findings[b].reason, findings[b].detail),
         {{"baseline", name}, {"task", spec_->name}}});
  }
  return Ok{};
}

void TaskBench::summarise_baselines() {
  double best_ns = 0;
  for (std::size_t a = 0; a < anchors_.front().size(); ++a) {
    if (!anchors_.front()[a].peer) continue;
    BaselineTime time;
    time.name = anchors_.front()[a].name;
    std::vector<double> medians;
    for (std::size_t s = 0; s < anchors_.size(); ++s) {
      const Anchor& anchor = anchors_[s][a];
      time.timings.push_back({shapes_[s].name, anchor.call_ns, anchor.spread, anchor.pairs, kTieRounds});
      medians.push_back(anchor.call_ns);
    }
    time.median_ns = geometric_mean(medians);
    if (baselines_.best.empty() || time.median_ns < best_ns) {
      baselines_.best = time.name;
      best_ns = time.median_ns;
    }
    baselines_.times.push_back(std::move(time));
  }
}

}  // namespace lathe
