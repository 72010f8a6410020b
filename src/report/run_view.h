#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace lathe {

/// What every section of the page looks at: the run and what follows from it, computed once. Views its
/// arguments.
struct RunView {
  RunView(const RunRecord& run, const std::vector<Experience>& experiences, const ReportExtras& extras);

  const RunRecord& run;
  const std::vector<Experience>& experiences;
  const ReportExtras& extras;
  const Experience* best = nullptr;
  std::map<Digest, const Experience*> by_candidate;  ///< the best verdict of each candidate
  std::map<std::pair<Outcome, std::string>, int> verdicts;
  int passed = 0;

  /// Against the best peer; nullopt if not timed.
  std::optional<Interval> speedup(const Experience& e) const {
    return e.verdict.speedup(extras.best_baseline);
  }
  /// The first parent of `e` that the run evaluated; nullptr if there is none.
  const Experience* parent_of(const Experience& e) const;
  /// nullptr if the shape is unknown.
  const ShapeWork* work_of(const std::string& shape) const;
};

}  // namespace lathe
