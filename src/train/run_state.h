#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "train/learner.h"

namespace lathe::train {

/// What must be equal for a run to go on as if it had never ended.
struct RunIdentity {
  Digest recipe, data, parameters;
  std::string precision;
  int threads = 0;    ///< of the CPU: sums are split among them
  int processes = 1;  ///< that share a step's rows
};

/// `folder`/state.json names the file with the numbers, so that both are replaced as one: the new
/// numbers are written and synced first, then state.json is replaced, then the old numbers are
/// deleted.
struct RunState {
  std::int64_t steps_done = 0;
  std::int64_t metrics_bytes = 0;  ///< of the metrics file when it was saved
  RunIdentity identity;
};
Status save_run(const std::string& folder, const RunState& state, const Learner& learner);

/// Nothing where no run was saved. Errors: kInvalid where `expected` differs, naming what differs.
Result<std::optional<RunState>> resume_run(const std::string& folder, const RunIdentity& expected,
                                           Learner& learner);

}  // namespace lathe::train
