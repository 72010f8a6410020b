#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace lathe {

/// What a contest's run says of itself.
struct ContestSettings {
  std::string contest, entrant, language, device, group;
  std::string peer;  ///< the task's fastest, the same for all entrants
  bool ordered = false;
  int threads = 1;
  std::string origin = {};  ///< the entrant's, and what else another sitting must share; empty: not recorded
};
std::string to_text(const ContestSettings& settings);

/// An entrant's work on a task.
struct ContestRun {
  RunRecord record;
  ContestSettings settings;
};
/// By id.
Result<std::vector<ContestRun>> contest_runs(Store& store, const std::string& contest);

}  // namespace lathe
