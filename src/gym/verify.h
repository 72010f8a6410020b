#pragma once

#include "gym/bench_shape.h"

namespace lathe {

/// The first thing that went wrong, or a pass.
struct Finding {
  Outcome outcome = Outcome::kPass;
  std::string reason = "ok";
  std::string detail;

  bool passed() const { return outcome == Outcome::kPass; }
};

/// What outputs and scratch hold before a block. Of what is timed too, in a secret order: nothing
/// tells a kernel whether it is being verified.
inline constexpr std::uint8_t kPoisonNan = 0xff;  ///< NaN in every float format, -1 in integers
inline constexpr std::uint8_t kPoisonOdd = 0x55;  ///< 1.46e13 in fp32

/// Of a session that cannot be opened: the candidate's fault where the backend says so, or where it
/// wants a library that this machine lacks.
Finding judge_open(const Error& error);
/// A block's outcome in the verdict's terms.
Finding judge_block(const BlockOutcome& outcome, const Workload& workload, std::span<const int> trials);

/// Judges each block of a kernel, and all of them together: what a call's few values do not show,
/// those of several do. A call on inputs that an earlier block had adds nothing to that.
class BlockJudge {
 public:
  explicit BlockJudge(const Workload& workload);
  Finding judge(const BlockOutcome& outcome, std::span<const int> trials);

 private:
  Finding judge_alone(const BlockOutcome& outcome, std::span<const int> trials) const;

  const Workload& workload_;
  std::vector<bool> met_;  ///< by trial
  std::vector<FewErrors> few_;
  std::vector<BeyondRounding> beyond_;
};

/// Runs every trial of the shape's verification workload twice, in blocks of different trials,
/// orders and poison, and appends what it saw to `evidence`. Stops at the first failure.
Finding verify_shape(Session& session, const BenchShape& shape, const Seed& secret, double timeout_seconds,
                     Evidence& evidence);

/// The naive build's RMS errors on every trial. Errors: naive_fails().
Result<RmsLimits> measure_naive_rms(Session& session, const Workload& workload, double timeout_seconds);

/// What a finding about the naive build says of the task: where that build is the task's own text
/// kInvalid, kUnavailable where the machine failed, else a fault of Lathe's.
Error naive_fails(const TaskSpec& task, const Finding& finding);

}  // namespace lathe
