#include "gym/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe {
namespace {

Outcome to_outcome(BlockStatus status) {
  switch (status) {
    case BlockStatus::kOk:
      return Outcome::kPass;
    case BlockStatus::kCrash:
      return Outcome::kCrash;
    case BlockStatus::kTimeout:
      return Outcome::kTimeout;
    case BlockStatus::kTampered:
      return Outcome::kTampered;
    case BlockStatus::kInfra:
      return Outcome::kInfra;
  }
  return Outcome::kInfra;
}

/// A kernel could say in its outputs, in the address of a fault or in an exception's text what its
/// inputs are, and others would know by them that they are timed.
constexpr const char* kTimedCall = "in a timed call, whose inputs are secret";

/// Places of outputs that are known in part are secret: a patient policy would map them.
std::string describe(const Comparison& comparison, const Expected& expected, const OutputDecl& output) {
  if (!expected.known.empty())
    return fmt::format(
        "output '{}': values of a secret part are off; worst error is {:.3g} times the tolerance",
        output.name, comparison.worst_ratio);
  if (comparison.reason.ends_with("rms"))
    return fmt::format(
        "output '{}': within the tolerance everywhere (the worst error is {:.3g} of it), but less exact than "
        "roundings make it",
        output.name, comparison.worst_ratio);
  return fmt::format(
      "output '{}': {} elements off; the first at flat index {}: got {:.9g}, want {:.9g}; worst error is "
      "{:.3g} times the tolerance",
      output.name, comparison.bad_count, comparison.first_bad, comparison.got, comparison.want,
      comparison.worst_ratio);
}

/// One case a trial, or one for all where a block gave no outputs.
void add_cases(const BlockOutcome& outcome, const Finding& finding, const BenchShape& shape,
               std::span<const int> trials, Evidence& evidence) {
  CaseEvidence base;
  base.shape = shape.name;
  base.hidden = shape.hidden;
  base.distribution = "several";
  base.pass = finding.passed();
  base.reason = finding.reason;
  if (outcome.outputs.empty()) evidence.cases.push_back(std::move(base));
  for (std::size_t t = 0; t < outcome.outputs.size(); ++t) {
    CaseEvidence one = base;
    one.distribution = name(shape.verify->trials[static_cast<std::size_t>(trials[t])].distribution);
    one.pass = outcome.status == BlockStatus::kOk;
    one.reason = one.pass ? "ok" : finding.reason;
    for (const Comparison& comparison : outcome.outputs[t]) {
      if (!comparison.pass) one.pass = false, one.reason = comparison.reason;
      one.worst_ratio = std::max(one.worst_ratio, std::min(comparison.worst_ratio, 1e30));
      one.rms_error =
          std::max(one.rms_error, std::isfinite(comparison.rms_error) ? comparison.rms_error : 1e300);
    }
    evidence.cases.push_back(std::move(one));
  }
}

/// Every trial twice: in parts, so that a kernel which computes neighbours too is seen to write to
/// outputs that nobody asked for, then all in one process, where one that remembers something is
/// wrong from its second call on. In secret orders. One part is a single call, as blocks of a large
/// shape are when they are timed.
std::vector<std::vector<int>> draw_blocks(const BenchShape& shape, const Seed& secret) {
  Rng rng(secret);
  std::vector<int> all(shape.verify->trials.size());
  std::iota(all.begin(), all.end(), 0);
  rng.shuffle(all);
  if (all.size() == 1) return {all};
  const auto second = all.begin() + 1, middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::vector<std::vector<int>> blocks = {{all.front()}, {second, middle}, {middle, all.end()}};
  std::erase_if(blocks, [](const auto& block) { return block.empty(); });
  rng.shuffle(all);
  blocks.push_back(std::move(all));
  return blocks;
}

}  // namespace

Finding judge_open(const Error& error) {
  const bool faulty = error.code == ErrorCode::kInvalid || error.reason == "no_library";
  const std::string fallback = faulty ? "invalid_plan" : "open";
  return {faulty ? Outcome::kBuildFailed : Outcome::kInfra, error.reason.empty() ? fallback : error.reason,
          error.to_string()};
}

BlockJudge::BlockJudge(const Workload& workload) : workload_(workload), met_(workload.trials.size()) {}

Finding BlockJudge::judge(const BlockOutcome& outcome, std::span<const int> trials) {
  Finding alone = judge_alone(outcome, trials);
  if (!alone.passed()) return alone;
  const std::size_t outputs = outcome.outputs.empty() ? 0 : outcome.outputs.front().size();
  few_.resize(std::max(few_.size(), outputs));
  beyond_.resize(few_.size());
  std::vector<FewErrors> of_block(few_.size());
  for (std::size_t t = 0; t < outcome.outputs.size(); ++t) {
    const auto trial = static_cast<std::size_t>(trials[t]);
    for (std::size_t i = 0; i < outcome.outputs[t].size(); ++i) {
      of_block[i] += outcome.outputs[t][i].few;
      if (!met_[trial]) few_[i] += outcome.outputs[t][i].few;
      beyond_[i] |= outcome.outputs[t][i].beyond;
    }
    met_[trial] = true;
  }
  for (std::size_t i = 0; i < few_.size(); ++i)
    if (!few_[i].pass() || !of_block[i].pass() || beyond_[i].both())
      return {Outcome::kWrong, "rms",
              fmt::format("output '{}': off {}", workload_.task.spec->outputs[i].name,
                          workload_.timed ? kTimedCall : "in several calls together")};
  return {};
}

Finding BlockJudge::judge_alone(const BlockOutcome& outcome, std::span<const int> trials) const {
  if (outcome.status != BlockStatus::kOk) {
    const bool by_candidate =
        outcome.status == BlockStatus::kCrash || outcome.status == BlockStatus::kTampered;
    return {to_outcome(outcome.status), outcome.reason,
            workload_.timed && by_candidate ? kTimedCall : outcome.detail};
  }
  for (std::size_t t = 0; t < outcome.outputs.size(); ++t)
    for (std::size_t i = 0; i < outcome.outputs[t].size(); ++i) {
      const Comparison& comparison = outcome.outputs[t][i];
      if (comparison.pass) continue;
      const OutputDecl& output = workload_.task.spec->outputs[i];
      if (workload_.timed)
        return {Outcome::kWrong, comparison.reason,
                fmt::format("output '{}': off {}", output.name, kTimedCall)};
      const Trial& trial = workload_.trials[static_cast<std::size_t>(trials[t])];
      return {Outcome::kWrong, comparison.reason,
              fmt::format("{} ({} inputs, {})", describe(comparison, trial.expected[i], output),
                          name(trial.distribution), shape_name(workload_.task.dims, *workload_.task.spec))};
    }
  return {};
}

Finding judge_block(const BlockOutcome& outcome, const Workload& workload, std::span<const int> trials) {
  return BlockJudge(workload).judge(outcome, trials);
}

Finding verify_shape(Session& session, const BenchShape& shape, const Seed& secret, double timeout_seconds,
                     Evidence& evidence) {
  const auto blocks = draw_blocks(shape, secret.derive("order"));
  BlockJudge judge(*shape.verify);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    BlockRequest request;
    request.trials = blocks[i];
    request.poison = i % 2 == 0 ? kPoisonNan : kPoisonOdd;
    request.timeout_seconds = timeout_seconds;
    request.secret = Rng(secret.derive("verify", i)).next();
    request.rms = shape.rms.empty() ? nullptr : &shape.rms;
    const BlockOutcome outcome = session.run(request);
    Finding finding = judge.judge(outcome, request.trials);
    add_cases(outcome, finding, shape, request.trials, evidence);
    if (!finding.passed()) return finding;
  }
  return {};
}

Result<RmsLimits> measure_naive_rms(Session& session, const Workload& workload, double timeout_seconds) {
  BlockRequest request;
  request.trials.resize(workload.trials.size());
  std::iota(request.trials.begin(), request.trials.end(), 0);
  request.timeout_seconds = timeout_seconds;
  request.measure_rms = true;
  BlockOutcome outcome = session.run(request);
  const Finding finding = judge_block(outcome, workload, request.trials);
  if (!finding.passed()) return naive_fails(*workload.task.spec, finding);
  return std::move(outcome.rms);
}

Error naive_fails(const TaskSpec& task, const Finding& finding) {
  const std::string how = fmt::format("{} {}", finding.reason, finding.detail);
  if (finding.outcome == Outcome::kInfra)
    return {ErrorCode::kUnavailable, fmt::format("the naive build of '{}' fails: {}", task.name, how)};
  if (task.reference == ReferenceKind::kProcess)
    return invalid(fmt::format("the module of '{}' fails as a kernel: {}", task.name, how),
                   finding.reason == "input_written"
                       ? "leave the inputs as they are: compute into a new tensor, or in a clone()"
                       : "it is the baseline, run and timed like a candidate (docs/host.md)",
                   {task.path, 0, 0});
  if (task.reference == ReferenceKind::kNative)
    return invalid(fmt::format("the reference '{}', which is the naive kernel as well, fails as one: {}",
                               task.reference_source, how),
                   "write loops over its arrays, without std::vector, new, exceptions, I/O and objects that "
                   "are constructed at load time; a process reference may use all of Python",
                   {task.path, 0, 0});
  if (finding.outcome == Outcome::kWrong)
    return invalid(
        fmt::format("the naive build of '{}' fails: {}", task.name, how),
        "whole numbers may leave their dtype, a comparison may decide by roundings, or a divisor be "
        "zero: run lathe tasks lint, and if it finds nothing, report this as a fault of Lathe",
        {task.path, 0, 0});
  return {ErrorCode::kInternal, fmt::format("the naive build of '{}' fails: {}", task.name, how), ""};
}

}  // namespace lathe
