#include "gym/task_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "gym/cancellable.h"
#include "gym/profile_stage.h"
#include "gym/version.h"

namespace lathe {
namespace {

constexpr double kHiddenFlops = 2e7;
/// Of a final, besides: so many meet each class of extents that a screen's few shapes leave out.
/// Where each costs a compilation or a Python process there are fewer.
constexpr int kSmallShapes = 16, kSmallShapesCompiled = 8, kSmallShapesOfHost = 2;
constexpr int kTimingsOfADraw = 64;

bool is_known_in_part(const Workload& workload) {
  return std::ranges::any_of(workload.trials.front().expected,
                             [](const Expected& expected) { return !expected.known.empty(); });
}

/// Failures of the machine that a candidate may have brought about, by a frame on a channel, a
/// helper that it killed or memory that it took: no way for a wrong one to be no verdict.
bool may_be_the_candidates(const Finding& finding) {
  static constexpr std::array<std::string_view, 6> kOthers = {"anchor_failed", "build_infra", "cancelled",
                                                              "no_processes",  "reverify",    "workload"};
  return finding.outcome == Outcome::kInfra && std::ranges::find(kOthers, finding.reason) == kOthers.end();
}

/// A candidate's `requires` as an expression over dims alone: a dim hides the device's fact of its
/// name, as in plans.
Expr requirement_on(const Candidate& candidate, const TaskSpec& task, const Dims& facts) {
  std::map<std::string, Expr> known;
  for (const auto& [name, value] : facts)
    if (std::ranges::find(task.dim_names, name) == task.dim_names.end())
      known.emplace(name, Expr::constant(value));
  return candidate.requirement()->substitute(known);
}

using Use = DeviceLane::Use;
using Grain = DeviceLane::Grain;

}  // namespace

TaskSpec TaskBench::domain_of(const Candidate& candidate, const Dims& facts) const {
  TaskSpec domain = *spec_;
  if (!candidate.requirement()) return domain;
  const Expr requirement = requirement_on(candidate, *spec_, facts);
  domain.where = domain.where ? Expr::apply("&&", *domain.where, requirement) : requirement;
  return domain;
}

std::vector<TaskBench::HiddenShape> TaskBench::draw_hidden(const Seed& seed, const TaskSpec& spec) const {
  std::vector<HiddenShape> hidden;
  std::vector<Dims> drawn = draw_hidden_shapes(spec, seed, options_.hidden_shapes, kHiddenFlops);
  const auto scored = std::span(shapes_).first(spec_->shapes.size());
  const SizeLimits limits = large_limits(*reference_, scored);
  auto large = draw_large_shape(spec, seed, limits, kHiddenFlops, drawn);
  if (!large) large = draw_shape_beyond(spec, seed, limits);
  for (const Dims& dims : drawn) hidden.push_back({dims});
  if (large) drawn.push_back(*large);
  for (Dims& dims : draw_shapes_beside(spec, seed, hidden_limits(kHiddenFlops), drawn))
    hidden.push_back({std::move(dims)});
  if (auto narrow = draw_short_shape(spec, seed, hidden_limits(kHiddenFlops)))
    hidden.push_back({*std::move(narrow)});
  if (large) hidden.push_back({*std::move(large), true});
  return hidden;
}

Status TaskBench::make_verify_data(const Scope& scope, const Seed& seed, Coverage coverage,
                                   BenchShape& shape) const {
  LATHE_TRY(shape.verify,
            shape.large ? make_large_workload(scope.backend, scope.reference, shape.task, seed)
                        : make_verify_workload(scope.backend, scope.reference, shape.task, seed, coverage));
  return Ok{};
}

Status TaskBench::measure_rms(const Scope& scope, const Artifact& naive, BenchShape& shape,
                              std::unique_ptr<Session> session) const {
  if (!session) {
    LATHE_TRY(session, scope.backend.open(naive_, naive, shape.verify, {Runner::kShared}));
  }
  LATHE_TRY(shape.rms, measure_naive_rms(*session, *shape.verify, options_.block_timeout_seconds));
  return Ok{};
}

Result<std::vector<std::unique_ptr<Session>>> TaskBench::open_sharing(const Scope& scope,
                                                                      const BuiltCandidate& built,
                                                                      Runner runner) const {
  std::vector<std::unique_ptr<Session>> sessions(shapes_.size());
  if (!scope.backend.device().shapes_share_processes) return sessions;
  std::vector<std::size_t> members;
  std::vector<Backend::Opening> openings;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const bool later_scored = !members.empty() && !shapes_[i].hidden;
    if (later_scored || !scope.backend.covers(built.candidate, shapes_[i].task)) continue;
    members.push_back(i);
    openings.push_back({&built.artifacts[i], shapes_[i].verify});
  }
  LATHE_TRY(auto opened, scope.backend.open_together(built.candidate, openings, runner));
  for (std::size_t m = 0; m < members.size(); ++m) sessions[members[m]] = std::move(opened[m]);
  return sessions;
}

Finding TaskBench::verify(const Scope& scope, const BuiltCandidate& built, Runner runner, const Seed& secret,
                          Evidence& evidence) const {
  int covered = 0;
  bool leaves_out_hidden = false;
  auto sharing = open_sharing(scope, built, runner);
  if (!sharing.ok()) return judge_open(sharing.error());
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!scope.backend.covers(built.candidate, shapes_[i].task)) {
      leaves_out_hidden = leaves_out_hidden || shapes_[i].hidden;
      continue;
    }
    if (!shapes_[i].hidden) ++covered;
    auto session = (*sharing)[i]
                       ? Result(std::move((*sharing)[i]))
                       : scope.backend.open(built.candidate, built.artifacts[i], shapes_[i].verify, runner);
    if (!session.ok()) return judge_open(session.error());
    Finding finding = verify_shape(**session, shapes_[i], secret.derive("shape", i),
                                   options_.block_timeout_seconds, evidence);
    if (!finding.passed()) return finding;
  }
  if (covered == 0) return {Outcome::kBuildFailed, "domain", "`requires` excludes every scored shape"};
  if (!leaves_out_hidden) return {};
  // Who narrows the domain is examined in what is left of it.
  const Seed own = secret.derive("own domain");
  const TaskSpec domain = domain_of(built.candidate, scope.backend.device().facts);
  return verify_drawn(scope, built, draw_hidden(own, domain), own, evidence);
}

std::vector<std::vector<std::size_t>> TaskBench::share_out(const std::vector<HiddenShape>& drawn,
                                                           const DeviceInfo& device) {
  std::vector<std::vector<std::size_t>> batches, of_small(static_cast<std::size_t>(device.lanes));
  std::size_t small = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i].small && device.shapes_share_processes)
      of_small[small++ % of_small.size()].push_back(i);
    else
      batches.push_back({i});
  }
  for (auto& batch : of_small)
    if (!batch.empty()) batches.push_back(std::move(batch));
  return batches;
}

Finding TaskBench::verify_drawn(const Scope& scope, const BuiltCandidate& built,
                                const std::vector<HiddenShape>& drawn, const Seed& seed,
                                Evidence& evidence) const {
  std::vector<Finding> findings(drawn.size());
  std::vector<Evidence> found(drawn.size());
  const std::vector<std::vector<std::size_t>> batches = share_out(drawn, scope.backend.device());
  (void)for_each_index(static_cast<int>(batches.size()), scope.backend.device().lanes, [&](int b) -> Status {
    std::vector<Fresh> shapes;
    for (const std::size_t i : batches[static_cast<std::size_t>(b)])
      shapes.push_back({drawn[i], seed.derive("fresh", i), findings[i], found[i]});
    verify_together(scope, built, shapes);
    return Ok{};
  });
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    std::ranges::move(found[i].cases, std::back_inserter(evidence.cases));
    if (!findings[i].passed()) return findings[i];
  }
  return {};
}

std::vector<TaskBench::Readied> TaskBench::get_ready(const Scope& scope, const BuiltCandidate& built,
                                                     Depth depth) const {
  std::vector<Readied> readied(anchors_.size());
  if (depth != Depth::kScreen || !scope.backend.device().shapes_share_processes) return readied;
  for (std::size_t i = 0; i < readied.size(); ++i) {
    if (!scope.backend.covers(built.candidate, shapes_[i].task)) continue;
    readied[i].shape = timed_shape(i);
    auto session = scope.backend.open(built.candidate, built.artifacts[i], readied[i].shape->timing);
    if (!session.ok()) continue;  // timing says what is wrong
    readied[i].session = *std::move(session);
    readied[i].session->get_ready();
  }
  return readied;
}

Finding TaskBench::time(const Scope& scope, const BuiltCandidate& built, const Seed& secret,
                        std::vector<Readied> readied, Verdict& verdict) const {
  Finding suspicion;
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    if (!scope.backend.covers(built.candidate, shapes_[i].task)) {
      const auto peaks = scope.backend.peaks();
      const double floor_ns = peaks.ok() ? peaks->floor_ns(shapes_[i].task) : 0;
      std::ranges::move(fallback_speedups(anchors_[i], baselines_.best, shapes_[i].name, floor_ns),
                        std::back_inserter(verdict.speedups));
      continue;
    }
    const Seed own = secret.derive("time", i);
    const auto shape = serve_timed_shape(scope, i);
    const TimingSite here = site(scope, *shape);
    ShapeTiming timed;
    if (verdict.depth == Depth::kScreen) {
      auto session = readied[i].shape == shape ? std::move(readied[i].session) : nullptr;
      timed = ShapeTimer(here, anchors_[i], own, made_stand_ins(i))
                  .screen(built.candidate, built.artifacts[i], std::move(session));
      if (timed.wants_stand_ins) {
        if (!is_baseline(built.candidate)) scope.backend.on_idle(built.candidate);  // it has met trials
        timed = ShapeTimer(here, anchors_[i], own.derive("again"), stand_ins(scope, i))
                    .screen(built.candidate, built.artifacts[i]);
      }
    } else {
      timed = ShapeTimer(here, anchors_[i], own).final(built.candidate, built.artifacts[i]);
    }
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
  return suspicion;
}

std::shared_ptr<const BenchShape> TaskBench::timed_shape(std::size_t shape) const {
  TimedShape& timed = *timed_shapes_[shape];
  const std::lock_guard lock(timed.mutex);
  return timed.drawn;
}

std::shared_ptr<const BenchShape> TaskBench::serve_timed_shape(const Scope& scope, std::size_t shape) const {
  TimedShape& timed = *timed_shapes_[shape];
  std::unique_lock lock(timed.mutex);
  const auto now = timed.drawn;
  if (!is_known_in_part(*now->timing) || ++timed.served != kTimingsOfADraw) return now;
  // Others go on with what there is.
  const Seed seed = options_.secret.derive("data again", shape).derive("draw", ++timed.draws);
  lock.unlock();
  auto again = draw_again(scope, shape, *now, seed);
  lock.lock();
  timed.served = 0;
  if (again.ok()) timed.drawn = *std::move(again);
  return timed.drawn;
}

Result<std::shared_ptr<const BenchShape>> TaskBench::draw_again(const Scope& scope, std::size_t shape,
                                                                const BenchShape& now,
                                                                const Seed& seed) const {
  auto drawn = std::make_shared<BenchShape>(now);
  LATHE_TRY(drawn->timing, make_timing_workload(scope.backend, scope.reference, now.task, seed,
                                                static_cast<int>(now.timing->timed_trials()),
                                                screen_limits(scope.backend.device())));
  const Anchor& naive = anchors_[shape].front();
  LATHE_TRY(const auto session,
            scope.backend.open(naive.candidate, naive.artifact, drawn->timing, {Runner::kShared}));
  LATHE_TRY(drawn->timing_rms, measure_naive_rms(*session, *drawn->timing, options_.block_timeout_seconds));
  return std::shared_ptr<const BenchShape>(std::move(drawn));
}

void TaskBench::profile(const Scope& scope, const BuiltCandidate& built, Verdict& verdict) const {
  std::vector<double> own_shares;
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    if (!scope.backend.covers(built.candidate, shapes_[i].task)) continue;
    const auto timed = std::find_if(verdict.timings.begin(), verdict.timings.end(),
                                    [&](const Timing& timing) { return timing.shape == shapes_[i].name; });
    const double call_ns = timed == verdict.timings.end() ? 0 : timed->median_ns;
    verdict.profiles.push_back(
        profile_shape(scope.backend, built.candidate, built.artifacts[i], *timed_shape(i), call_ns));
    const auto& counters = verdict.profiles.back().counters;
    if (const auto own = counters.find("own_kernel_share"); own != counters.end())
      own_shares.push_back(own->second);
  }
  if (!own_shares.empty()) verdict.profile["launched_share"] = mean(own_shares);
}

Finding TaskBench::confirm(const Scope& scope, const BuiltCandidate& built, const Seed& seed,
                           const Finding& timed, Verdict& verdict) const {
  const Finding again = reverify(scope, built, seed, verdict.evidence, !timed.passed());
  if (!again.passed()) return again;
  if (timed.passed() || verdict.depth == Depth::kScreen) return timed;
  return {Outcome::kPass, "ok", timed.detail + "; verified again on fresh shapes and inputs"};
}

Finding TaskBench::reverify(const Scope& scope, const BuiltCandidate& built, const Seed& seed,
                            Evidence& evidence, bool suspicious) const {
  const TaskSpec domain = domain_of(built.candidate, scope.backend.device().facts);
  std::vector<HiddenShape> fresh = draw_hidden(seed, domain);
  std::vector<Dims> others;
  for (const HiddenShape& shape : fresh) others.push_back(shape.dims);
  const bool is_host = scope.backend.device().tier == "HOST";
  const bool is_compiled = built.candidate.has_plan() && !built.candidate.plan().constants.empty();
  const int small = is_host ? kSmallShapesOfHost : is_compiled ? kSmallShapesCompiled : kSmallShapes;
  for (Dims& dims : draw_small_shapes(domain, seed, small, others))
    fresh.push_back({.dims = std::move(dims), .small = true});
  for (const BenchShape& shape : shapes_) {
    if (shape.hidden) continue;
    if (suspicious)
      fresh.push_back({shape.task.dims});
    else if (coverage_for(shape.task) != Coverage::kEverything)
      fresh.push_back({shape.task.dims, false, Coverage::kOthers});
  }
  return verify_drawn(scope, built, fresh, seed, evidence);
}

void TaskBench::verify_together(const Scope& scope, const BuiltCandidate& built,
                                std::span<Fresh> shapes) const {
  std::vector<Backend::Opening> openings;
  std::vector<Fresh*> opened;
  for (Fresh& fresh : shapes) {
    fresh.finding = make_fresh(scope, built, fresh);
    if (!fresh.finding.passed()) return;
    if (fresh.built.artifacts.empty()) continue;  // outside the candidate's domain
    openings.push_back({&fresh.built.artifacts.front(), fresh.shape.verify});
    opened.push_back(&fresh);
  }
  if (opened.empty()) return;
  const auto sessions = scope.backend.open_together(built.candidate, openings, {});
  if (!sessions.ok()) {
    opened.front()->finding = judge_open(sessions.error());
    return;
  }
  for (std::size_t i = 0; i < opened.size(); ++i) {
    Fresh& fresh = *opened[i];
    fresh.finding = verify_shape(*(*sessions)[i], fresh.shape, fresh.seed.derive("secret"),
                                 options_.block_timeout_seconds, fresh.evidence);
    if (!fresh.finding.passed()) return;
  }
}

Finding TaskBench::make_fresh(const Scope& scope, const BuiltCandidate& built, Fresh& fresh) const {
  const auto broken = [](const Error& error) {
    return Finding{Outcome::kInfra, "reverify", error.to_string()};
  };
  BenchShape& shape = fresh.shape;
  shape.name = shape_name(fresh.drawn.dims, *spec_);
  shape.hidden = true;
  shape.large = fresh.drawn.large;
  auto bound = lathe::bind(*spec_, fresh.drawn.dims);
  if (!bound.ok()) return broken(bound.error());
  shape.task = *std::move(bound);
  if (!scope.backend.covers(built.candidate, shape.task)) return {};
  if (const Status made = make_verify_data(scope, fresh.seed.derive("inputs"), fresh.drawn.coverage, shape);
      !made.ok())
    return broken(made.error());
  // The naive build would take too long at a large one; a small one has too few values to tell.
  if (!shape.large && !fresh.drawn.small) {
    const BuiltCandidate naive = build_for_shapes(scope.backend, naive_, {&shape, 1});
    if (!naive.finding.passed())
      return {Outcome::kInfra, "reverify", "the naive build fails: " + naive.finding.detail};
    if (const Status measured = measure_rms(scope, naive.artifacts[0], shape); !measured.ok())
      return broken(measured.error());
  }
  fresh.built = build_for_shapes(scope.backend, built.candidate, {&shape, 1});
  return fresh.built.finding;
}

void TaskBench::inspect(const Scope& scope, const BuiltCandidate& built, Verdict& verdict) const {
  if (!built.candidate.has_kernels() || built.artifacts.empty()) return;
  auto facts = scope.backend.inspect(built.artifacts.front());
  if (facts.ok())
    verdict.build.facts.merge(*facts);
  else
    verdict.build.log += fmt::format("\nnote: {}", facts.error().to_string());
}

bool TaskBench::is_baseline(const Candidate& candidate) const {
  const auto same = [&](const Candidate& other) { return other.digest == candidate.digest; };
  return std::ranges::any_of(anchors_.front(), same, &Anchor::candidate) ||
         std::ranges::any_of(options_.anchors, same);
}

Finding TaskBench::judge(const Scope& scope, const BuiltCandidate& built, const Seed& secret,
                         Verdict& verdict) const {
  const auto stage = [&](const char* name, Use use, auto&& work) {
    const DeviceLane::Lease lease = scope.backend.lease(use, Grain::kStage);
    const Stopwatch watch(verdict.stage_seconds[name]);
    return work();
  };
  if (!built.finding.passed() || verdict.depth == Depth::kBuild) return built.finding;
  std::vector<Readied> readied;
  Finding finding = stage("verify", Use::kWork, [&] {
    readied = get_ready(scope, built, verdict.depth);
    return verify(scope, built, {}, secret.derive("verify"), verdict.evidence);
  });
  const bool beyond_scored = std::ranges::any_of(verdict.evidence.cases, &CaseEvidence::hidden);
  if (built.candidate.requirement() && !beyond_scored) verdict.unchecked.emplace_back("hidden_shapes");
  if (!finding.passed() || verdict.depth == Depth::kVerify) return finding;
  const std::int64_t begin_ns = steady_clock().now_ns();
  finding =
      stage("time", Use::kTiming, [&] { return time(scope, built, secret, std::move(readied), verdict); });
  verdict.profile.merge(scope.backend.device_state(begin_ns, steady_clock().now_ns()));
  // Hidden shapes are the same for a whole run, which a patient policy could learn: a final draws
  // new ones. Algebra may be real: what is too fast for the textbook must hold there, and on all
  // shapes' fresh inputs.
  const bool suspicious = finding.outcome == Outcome::kSuspect;
  if (suspicious || (finding.passed() && verdict.depth != Depth::kScreen))
    finding = stage("reverify", Use::kWork,
                    [&] { return confirm(scope, built, secret.derive("reverify"), finding, verdict); });
  if (finding.passed() && verdict.depth == Depth::kProfile)
    stage("profile", Use::kTiming, [&] { return profile(scope, built, verdict), Finding{}; });
  return finding;
}

bool TaskBench::control_runs(const Scope& scope, const Seed& secret) const {
  const DeviceLane::Lease lease = scope.backend.lease(Use::kWork, Grain::kStage);
  const Anchor& naive = anchors_.front().front();
  const Workload& workload = *shapes_.front().verify;
  // In a process that must still be made, as the candidate's: one that is kept needs no more
  // memory.
  const auto session =
      scope.backend.open(naive.candidate, naive.artifact, shapes_.front().verify, {Runner::kFresh});
  if (!session.ok()) return false;
  BlockRequest request;
  request.trials = {0};
  request.timeout_seconds = options_.block_timeout_seconds;
  request.secret = Rng(secret).next();
  return judge_block((*session)->run(request), workload, request.trials).passed();
}

Verdict TaskBench::evaluate(const BuiltCandidate& built, Depth depth, Backend& backend,
                            const CancelToken& cancel, std::atomic<std::int64_t>* waited_ns) const {
  const std::uint64_t number = ++evaluations_;
  CancellableBackend cancellable(backend, cancel, built.candidate.digest, number, waited_ns);
  const auto reference = make_cancellable(*reference_, cancel);
  const Scope scope{cancellable, *reference, cancel};
  const Seed secret = options_.secret.derive("evaluation", number);
  Verdict verdict;
  verdict.depth = depth;
  verdict.candidate = built.candidate.digest;
  verdict.task = spec_->digest;
  verdict.text_bytes = static_cast<std::int64_t>(built.candidate.text.size());
  verdict.build = built.facts;
  const DeviceInfo& device = backend.device();
  verdict.provenance = {device.kind,     device.name, device.uuid, device.driver,
                        device.compiler, kGymVersion, device.jail, device.tier};
  verdict.unchecked = device.unchecked;
  for (std::size_t i = 0; i < spec_->shapes.size(); ++i)
    if (!backend.covers(built.candidate, shapes_[i].task)) verdict.uncovered.push_back(shapes_[i].name);
  if (built.finding.passed() && (options_.inspect_code || depth == Depth::kFinal || depth == Depth::kProfile))
    inspect(scope, built, verdict);
  const Verdict untried = verdict;
  // Processes that have met the inputs which a timing withholds serve no other timing.
  const auto end_processes = [&] {
    if (!is_baseline(built.candidate)) backend.on_idle(built.candidate);
  };
  Finding finding = judge(scope, built, secret, verdict);
  if (may_be_the_candidates(finding) && control_runs(scope, secret.derive("control"))) {
    const auto spent = std::move(verdict.stage_seconds);
    verdict = untried;
    verdict.stage_seconds = spent;
    end_processes();
    finding = judge(scope, built, secret.derive("again"), verdict);
    if (may_be_the_candidates(finding) && control_runs(scope, secret.derive("control", 1)))
      finding = {Outcome::kCrash, finding.reason,
                 "twice with this candidate and never with the naive build: " + finding.detail};
  }
  end_processes();
  verdict.outcome = finding.outcome;
  verdict.reason = finding.reason;
  verdict.detail = finding.detail;
  return verdict;
}

}  // namespace lathe
