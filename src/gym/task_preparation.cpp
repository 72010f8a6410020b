#include <fmt/format.h>

#include <thread>

#include "base/clock.h"
#include "base/guard.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/processors.h"
#include "gym/cancellable.h"
#include "gym/preparation_memory.h"
#include "gym/task_bench.h"
#include "task/slices.h"

namespace lathe {
namespace {

constexpr int kScreenTrials = 32;  // each costs a screen's process its share of mapping memory

using Use = DeviceLane::Use;
using Grain = DeviceLane::Grain;

}  // namespace

Result<std::unique_ptr<TaskBench>> TaskBench::create(std::shared_ptr<const TaskSpec> task, Backend& backend,
                                                     const TaskBenchOptions& options,
                                                     const CancelToken& cancel, EventSink& events) {
  std::unique_ptr<TaskBench> bench(new TaskBench(std::move(task), options, events));
  LATHE_TRY(auto reference, backend.make_reference(*bench->spec_));
  bench->reference_ = bench->spec_->reference == ReferenceKind::kProcess
                          ? std::move(reference)
                          : make_sliced(std::move(reference), *bench->spec_, backend.products() != nullptr);
  CancellableBackend cancellable(backend, cancel);
  const auto cancellable_reference = make_cancellable(*bench->reference_, cancel);
  const Scope scope{cancellable, *cancellable_reference, cancel};
  Event prepared{Severity::kDebug, "gym.prepared", "prepared", {{"task", bench->spec_->name}}};
  const auto stage = [&](const char* name, auto&& work) -> Status {
    const auto begin_ns = steady_clock().now_ns();
    const Status done = work();
    prepared.fields[name] = fmt::format("{:.3f}", seconds_since(begin_ns));
    return done;
  };
  LATHE_TRY(std::vector<BuiltBaseline> baselines, bench->list_baselines(scope));
  LATHE_CHECK_OK(bench->bind_shapes());
  if (const auto available = available_memory())
    LATHE_CHECK_OK(check_preparation_memory(*bench->reference_, bench->shapes_,
                                            static_cast<int>(usable_processors().size()), *available));
  LATHE_CHECK_OK(stage("data and builds", [&] { return bench->make_data_and_build(scope, baselines); }));
  LATHE_CHECK_OK(stage("naive", [&] { return bench->measure_naive(scope, baselines.front().built); }));
  bench->hand_over_timing_data();
  LATHE_CHECK_OK(stage("ties", [&] { return bench->tie_all(scope, baselines); }));
  bench->summarise_baselines();
  events.on_event(prepared);
  return bench;
}

MemoryUse TaskBench::memory() const {
  MemoryUse use;
  for (const BenchShape& shape : shapes_)
    if (shape.verify) use += shape.verify->memory();
  for (std::size_t s = 0; s < timed_shapes_.size(); ++s) use += timed_shape(s)->timing->memory();
  return use;
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
  for (const HiddenShape& shape : draw_hidden(options_.secret.derive("shapes").derive("hidden"), *spec_))
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
  // How many trials a steady device is timed on does not depend on the naive build's speed.
  const std::size_t timed = scope.backend.device().steady ? spec_->shapes.size() : 0;
  return for_each_index(static_cast<int>(timed + shapes_.size()), [&](int i) -> Status {
    const auto job = static_cast<std::size_t>(i);
    if (job < timed) {
      LATHE_TRY(const DevicePeaks peaks, scope.backend.peaks());
      return make_timing_data(scope, job, steady_screen_trials(shapes_[job].task, peaks));
    }
    const std::size_t s = job - timed;
    BenchShape& shape = shapes_[s];
    LATHE_CHECK_OK(make_verify_data(scope, seed.derive(shape.hidden ? "hidden" : "scored", s),
                                    shape.hidden ? Coverage::kEverything : coverage_for(shape.task), shape));
    return shape.hidden ? Status(Ok{}) : check_bounds(*shape.verify);
  });
}

Status TaskBench::measure_naive(const Scope& scope, const BuiltCandidate& naive) {
  const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
  LATHE_TRY(auto sharing, open_sharing(scope, naive, {Runner::kShared}));
  return for_each_index(static_cast<int>(shapes_.size()), scope.backend.device().lanes, [&](int i) -> Status {
    const auto s = static_cast<std::size_t>(i);
    LATHE_CHECK_OK(measure_rms(scope, naive.artifacts[s], shapes_[s], std::move(sharing[s])));
    return shapes_[s].hidden ? Status(Ok{}) : measure_naive_timing(scope, naive, s);
  });
}

Status TaskBench::make_timing_data(const Scope& scope, std::size_t s, int trials) {
  LATHE_TRY(shapes_[s].timing, make_timing_workload(scope.backend, scope.reference, shapes_[s].task,
                                                    options_.secret.derive("data", s), trials,
                                                    screen_limits(scope.backend.device())));
  return Ok{};
}

Status TaskBench::measure_naive_timing(const Scope& scope, const BuiltCandidate& naive, std::size_t s) {
  BenchShape& shape = shapes_[s];
  LATHE_TRY(auto session,
            scope.backend.open(naive.candidate, naive.artifacts[s], shape.verify, {Runner::kShared}));
  TimingRule rule;
  rule.timeout_seconds = options_.block_timeout_seconds;
  rule.deals = scope.backend.device().deals_trials;
  const QuickTime quick = time_quickly(*session, *shape.verify, rule, options_.secret.derive("naive", s));
  if (!quick.finding.passed()) return naive_fails(*spec_, quick.finding);
  const double best_ns = quick.call_ns / scope.backend.device().best_over_naive;
  shape.final_trials = trials_for_calls_of(best_ns);
  if (!shape.timing) {
    const int trials = at_least_a_deck(std::min(shape.final_trials, kScreenTrials), scope.backend.device());
    LATHE_CHECK_OK(make_timing_data(scope, s, trials));
  }
  LATHE_TRY(session,
            scope.backend.open(naive.candidate, naive.artifacts[s], shape.timing, {Runner::kShared}));
  LATHE_TRY(shape.timing_rms, measure_naive_rms(*session, *shape.timing, options_.block_timeout_seconds));
  return Ok{};
}

void TaskBench::hand_over_timing_data() {
  for (std::size_t s = 0; s < spec_->shapes.size(); ++s) {
    BenchShape& shape = shapes_[s];
    timed_shapes_.push_back(std::make_unique<TimedShape>());
    timed_shapes_.back()->drawn = std::make_shared<BenchShape>(shape);
    shape.timing.reset();
    shape.timing_rms.clear();
  }
}

void TaskBench::build_all(const Scope& scope, std::vector<BuiltBaseline>& baselines) const {
  (void)for_each_index(static_cast<int>(baselines.size()), [&](int i) -> Status {
    BuiltBaseline& one = baselines[static_cast<std::size_t>(i)];
    one.built = build_for_shapes(scope.backend, one.built.candidate, shapes_);
    return Ok{};
  });
}

Finding TaskBench::verify_and_tie(const Scope& scope, const BuiltBaseline& baseline,
                                  std::vector<Anchor>& tied) const {
  {
    const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
    if (Finding finding = verify_baseline(scope, baseline); !finding.passed()) return finding;
  }
  const DeviceLane::Lease lease = scope.backend.lease(Use::kTiming, Grain::kStage);
  return tie(scope, baseline, tied);
}

Finding TaskBench::verify_baseline(const Scope& scope, const BuiltBaseline& baseline) const {
  if (!baseline.built.finding.passed()) return baseline.built.finding;
  Evidence evidence;
  return verify(scope, baseline.built, runner_of_baseline(baseline.peer),
                options_.secret.derive("baseline " + baseline.name), evidence);
}

Finding TaskBench::tie(const Scope& scope, const BuiltBaseline& baseline, std::vector<Anchor>& tied) const {
  const Seed secret = options_.secret.derive("baseline " + baseline.name);
  const BuiltCandidate& built = baseline.built;
  tied.resize(anchors_.size());
  std::vector<Finding> findings(anchors_.size());
  (void)for_each_index(static_cast<int>(anchors_.size()), scope.backend.device().lanes, [&](int i) -> Status {
    const auto s = static_cast<std::size_t>(i);
    const auto shape = timed_shape(s);
    TiedAnchor one = ShapeTimer(site(scope, *shape), anchors_[s], secret.derive("tie", s))
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
  return all;
}

Status TaskBench::tie_all(const Scope& scope, const std::vector<BuiltBaseline>& baselines) {
  anchors_.resize(spec_->shapes.size());
  std::vector<Finding> findings(baselines.size());
  std::vector<std::vector<Anchor>> tied(baselines.size());
  const auto tie_one = [&](std::size_t b) { findings[b] = verify_and_tie(scope, baselines[b], tied[b]); };
  {
    // All its outputs have been compared when its errors were measured.
    const DeviceLane::Lease lease = scope.backend.lease(Use::kTiming, Grain::kStage);
    findings[0] = tie(scope, baselines[0], tied[0]);
  }
  if (scope.cancel.cancelled()) return cancelled_error();
  if (!findings[0].passed()) return naive_fails(*spec_, findings[0]);
  for (std::size_t s = 0; s < anchors_.size(); ++s) anchors_[s].push_back(std::move(tied[0][s]));
  (void)for_each_index(static_cast<int>(baselines.size()) - 1, scope.backend.device().lanes,
                       [&](int i) -> Status { return tie_one(static_cast<std::size_t>(i) + 1), Ok{}; });
  if (scope.cancel.cancelled()) return cancelled_error();
  for (std::size_t b = 1; b < baselines.size(); ++b) {
    if (!findings[b].passed()) {
      report_dropped(baselines[b].name, findings[b]);
      baselines_.left_out.push_back(baselines[b].name + ": " + findings[b].reason);
      continue;
    }
    for (std::size_t s = 0; s < anchors_.size(); ++s) anchors_[s].push_back(std::move(tied[b][s]));
  }
  return Ok{};
}

void TaskBench::report_dropped(const std::string& baseline, const Finding& finding) const {
  events_.on_event({Severity::kWarning,
                    "baseline.dropped",
                    fmt::format("baseline {} is left out: {} {}", baseline, finding.reason, finding.detail),
                    {{"baseline", baseline}, {"task", spec_->name}}});
}

std::optional<std::span<const Anchor>> TaskBench::made_stand_ins(std::size_t shape) const {
  if (options_.anchors.empty()) return std::span<const Anchor>();
  if (!stand_ins_.made) return std::nullopt;
  return stand_ins_.anchors[shape];
}

std::span<const Anchor> TaskBench::stand_ins(const Scope& scope, std::size_t shape) const {
  if (!stand_ins_.made) {
    const std::unique_lock making(stand_ins_.making, std::try_to_lock);
    if (!making) return {};
    if (!stand_ins_.made) make_stand_ins(scope);
    if (!stand_ins_.made) return {};
  }
  return stand_ins_.anchors[shape];
}

void TaskBench::make_stand_ins(const Scope& scope) const {
  std::vector<std::vector<Anchor>> anchors(anchors_.size());
  for (const Candidate& candidate : options_.anchors) {
    const BuiltBaseline one{"anchor " + candidate.name, false,
                            build_for_shapes(scope.backend, candidate, shapes_)};
    std::vector<Anchor> tied;
    Finding finding = verify_baseline(scope, one);
    if (finding.passed()) finding = tie(scope, one, tied);
    if (scope.cancel.cancelled()) return;  // the next screen that needs them tries again
    if (finding.passed())
      for (std::size_t s = 0; s < anchors.size(); ++s) anchors[s].push_back(std::move(tied[s]));
    else
      report_dropped(one.name, finding);
  }
  stand_ins_.anchors = std::move(anchors);
  stand_ins_.made = true;
}

void TaskBench::summarise_baselines() {
  double best_ns = 0;
  for (std::size_t a = 0; a < anchors_.front().size(); ++a) {
    BaselineTime time;
    time.name = anchors_.front()[a].name;
    std::vector<double> medians;
    for (std::size_t s = 0; s < anchors_.size(); ++s) {
      const Anchor& anchor = anchors_[s][a];
      time.timings.push_back({shapes_[s].name, anchor.call_ns, anchor.spread, anchor.pairs, anchor.rounds});
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
