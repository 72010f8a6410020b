#include "gym/task_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "candidate/launch_program.h"
#include "gym/profile_stage.h"

namespace lathe {
namespace {

constexpr double kHiddenFlops = 2e7;

}  // namespace

std::vector<Dims> TaskBench::draw_shapes(const Seed& seed) const {
  return draw_hidden_shapes(spec_, seed, options_.hidden_shapes, kHiddenFlops);
}

Status TaskBench::measure_rms(const Artifact& naive, BenchShape& shape) {
  LATHE_TRY(auto session, backend_.open(naive_, naive, shape.verify));
  LATHE_TRY(shape.rms, measure_naive_rms(*session, *shape.verify, options_.block_timeout_seconds));
  return Ok{};
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
  std::vector<Dims> fresh = draw_shapes(seed);
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
    const BuiltCandidate naive = build_for_shapes(backend_, naive_, {&shape, 1});
    if (!naive.finding.passed())
      return {Outcome::kInfra, "reverify", "the naive build fails: " + naive.finding.detail};
    if (const Status measured = measure_rms(naive.artifacts[0], shape); !measured.ok())
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
