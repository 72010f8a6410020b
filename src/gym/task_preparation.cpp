#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/parallel.h"
#include "gym/cancellable.h"
#include "gym/task_bench.h"
#include "task/slices.h"

namespace lathe {
namespace {

constexpr double kSmallFlops = 3e7;      // a shape this small is verified on every distribution
constexpr double kTimedBlockNs = 1.2e6;  // what the trials of a timing workload should fill
constexpr int kMaxTrials = 96;
constexpr int kScreenTrials = 32;  // each costs a screen's process its share of mapping memory

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
  for (const Dims& dims : draw_shapes(seed.derive("hidden")))
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

std::vector<BuiltCandidate> TaskBench::build_all(const std::vector<Baseline>& baselines) {
  const Stopwatch watch(preparation_["build"]);
  std::vector<BuiltCandidate> built(baselines.size());
  (void)for_each_index(static_cast<int>(built.size()), [&](int i) -> Status {
    const auto b = static_cast<std::size_t>(i);
    built[b] = build_for_shapes(backend_, baselines[b].candidate, shapes_);
    return Ok{};
  });
  return built;
}

Finding TaskBench::add_baseline(const std::string& name, bool peer, const BuiltCandidate& built) {
  backend_.rest();
  Finding finding = built.finding;
  {
    const Stopwatch watch(preparation_["verify"]);
    Evidence evidence;
    if (finding.passed()) finding = verify(built, evidence);
  }
  const Stopwatch watch(preparation_["time"]);
  for (std::size_t i = 0; i < timers_.size() && finding.passed(); ++i)
    finding = timers_[i]->add_anchor(name, peer, built.candidate, built.artifacts[i]);
  return finding;
}

Status TaskBench::add_baselines(EventSink& events) {
  LATHE_TRY(auto baselines, make_baselines(spec_, dialect_of(backend_.device())));
  const std::size_t peers = baselines.size();
  for (const Candidate& anchor : options_.anchors) baselines.push_back({"anchor " + anchor.name, anchor});
  const std::vector<BuiltCandidate> built = build_all(baselines);
  const auto naive_fails = [&](const Finding& finding) {
    return Error{ErrorCode::kInternal, fmt::format("the naive build of '{}' fails: {} {}", spec_.name,
                                                   finding.reason, finding.detail)};
  };
  const BuiltCandidate& naive = built.front();
  if (!naive.finding.passed()) return naive_fails(naive.finding);
  naive_ = naive.candidate;
  {
    const Stopwatch watch(preparation_["rms"]);
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      LATHE_CHECK_OK(measure_rms(naive.artifacts[i], shapes_[i]));
  }
  LATHE_CHECK_OK(make_timing_data(naive));
  for (std::size_t b = 0; b < baselines.size(); ++b) {
    const std::string& name = baselines[b].name;
    const Finding finding = add_baseline(name, b < peers, built[b]);
    if (finding.passed()) continue;
    if (options_.cancel.cancelled()) return cancelled_error();
    if (b == 0) return naive_fails(finding);
    events.on_event({Severity::kWarning,
                     "baseline.dropped",
                     fmt::format("baseline {} is left out: {} {}", name, finding.reason, finding.detail),
                     {{"baseline", name}}});
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

}  // namespace lathe
