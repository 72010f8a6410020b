#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace lathe {

/// The data that the sections of the page share: the run and what is derived from it, computed
/// once. Refers to its arguments.
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

/// The sections of the page as HTML fragments, in order.
std::string page_header(const RunView& view);
std::string summary_cards(const RunView& view);
std::string baseline_table(const RunView& view);  ///< losses first
std::string verdict_table(const RunView& view);
std::string evidence_table(const RunView& view);
std::string kernel_listing(const RunView& view);  ///< the winner, as a diff against its parent
std::string details_section(const RunView& view);

/// Each returns an HTML fragment, or a sentence that says why there is nothing to draw.
std::string progress_chart(const RunView& view);  ///< best so far against evaluations
std::string roofline_chart(const RunView& view);  ///< measured peaks, naive, baselines, best
std::string interval_chart(const RunView& view);  ///< speedups with intervals, losses first
std::string lineage_chart(const RunView& view);   ///< the ancestors of the best kernel

}  // namespace lathe
