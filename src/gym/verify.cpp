#include "gym/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe {
namespace {

constexpr std::uint8_t kPoisonNan = 0xff;  // NaN in every float format, -1 in integers
constexpr std::uint8_t kPoisonOdd = 0x55;  // 1.46e13 in fp32

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

std::string describe(const Comparison& comparison, const OutputDecl& output) {
  return fmt::format(
      "output '{}': {} elements off; the first at flat index {}: got {:.9g}, want {:.9g}; worst error is "
      "{:.3g} times the tolerance",
      output.name, comparison.bad_count, comparison.first_bad, comparison.got, comparison.want,
      comparison.worst_ratio);
}

CaseEvidence evidence_of(const BlockOutcome& outcome, const Finding& finding, const BenchShape& shape,
                         std::string_view distribution) {
  CaseEvidence evidence;
  evidence.shape = shape.name;
  evidence.hidden = shape.hidden;
  evidence.distribution = distribution;
  evidence.pass = finding.passed();
  evidence.reason = finding.reason;
  for (const auto& trial : outcome.outputs)
    for (const Comparison& comparison : trial) {
      evidence.worst_ratio = std::max(evidence.worst_ratio, std::min(comparison.worst_ratio, 1e30));
      evidence.rms_error =
          std::max(evidence.rms_error, std::isfinite(comparison.rms_error) ? comparison.rms_error : 1e300);
    }
  return evidence;
}

/// All trials in one process, in a secret order: a kernel that remembers something is wrong from its second
/// call on.
BlockRequest all_in_one_block(const BenchShape& shape, const Seed& secret) {
  Rng rng(secret);
  BlockRequest request;
  request.trials.resize(shape.verify->trials.size());
  std::iota(request.trials.begin(), request.trials.end(), 0);
  rng.shuffle(request.trials);
  return request;
}

}  // namespace

Finding judge_block(const BlockOutcome& outcome, const Workload& workload, std::span<const int> trials) {
  if (outcome.status != BlockStatus::kOk) return {to_outcome(outcome.status), outcome.reason, outcome.detail};
  for (std::size_t t = 0; t < outcome.outputs.size(); ++t)
    for (std::size_t i = 0; i < outcome.outputs[t].size(); ++i) {
      const Comparison& comparison = outcome.outputs[t][i];
      if (comparison.pass) continue;
      const auto distribution = workload.trials[static_cast<std::size_t>(trials[t])].distribution;
      return {Outcome::kWrong, comparison.reason,
              fmt::format("{} ({} inputs, {})", describe(comparison, workload.task.spec->outputs[i]),
                          name(distribution), shape_name(workload.task.dims, *workload.task.spec))};
    }
  return {};
}

Finding verify_shape(Session& session, const BenchShape& shape, const Seed& secret, double timeout_seconds,
                     Evidence& evidence) {
  const std::size_t trials = shape.verify->trials.size();
  for (std::size_t t = 0; t < (trials > 1 ? trials + 1 : 1); ++t) {
    const bool single = t < trials;
    BlockRequest request = all_in_one_block(shape, secret.derive("order"));
    if (single) request.trials = {static_cast<int>(t)};
    request.poison = t % 2 == 0 ? kPoisonNan : kPoisonOdd;
    request.timeout_seconds = timeout_seconds;
    request.secret = Rng(secret.derive("verify", t)).next();
    request.rms = shape.rms.empty() ? nullptr : &shape.rms;
    const BlockOutcome outcome = session.run(request);
    Finding finding = judge_block(outcome, *shape.verify, request.trials);
    const auto distribution = single ? name(shape.verify->trials[t].distribution) : "one process";
    evidence.cases.push_back(evidence_of(outcome, finding, shape, distribution));
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
  if (!finding.passed())
    return Error{ErrorCode::kInternal,
                 fmt::format("the naive build fails: {} {}", finding.reason, finding.detail),
                 "the task's tolerance does not hold for its own naive build: run lathe tasks lint"};
  return std::move(outcome.rms);
}

}  // namespace lathe
