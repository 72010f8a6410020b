#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "record/verdict.h"

namespace lathe {

/// What one evaluation of one entrant at one task gave: a line of samples.jsonl.
struct ContestSample {
  std::string entrant;
  bool ordered = false;  ///< evaluations build on one another or come best first; else independent draws
  std::string device;
  std::string language;
  int threads = 1;    ///< or GPUs: the resource count of efficiency@k
  std::string group;  ///< of tasks: "shapes", "compositions"
  std::string task_name;
  Digest task;
  std::int64_t number = 0;  ///< from 1; 0: the greedy answer, which is no sample
  Digest candidate;
  Outcome outcome = Outcome::kInfra;
  std::string reason;
  std::string peer;        ///< the fastest of the task
  double speedup_low = 0;  ///< over the peer; 0 for what did not pass
  double speedup = 0;      ///< the same, the middle of its interval
  double answer_tokens = 0;
  double write_seconds = 0;

  bool built() const { return outcome != Outcome::kBuildFailed && outcome != Outcome::kInfra; }
  bool correct() const { return outcome == Outcome::kPass; }
};

nlohmann::json to_json(const ContestSample& sample);
Result<ContestSample> sample_from_json(const nlohmann::json& json);

/// All lines of a JSON Lines file. Errors name file and line.
Result<std::vector<ContestSample>> read_samples(const std::string& path);

}  // namespace lathe
