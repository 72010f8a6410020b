#include "report/run_view.h"

#include <algorithm>
#include <tuple>

namespace lathe {

const Experience* best_experience(const std::vector<Experience>& experiences,
                                  const std::string& best_baseline) {
  const auto rank = [&](const Experience& e) {
    const Interval ratio = e.verdict.speedup(best_baseline).value_or(Interval{});
    return std::tuple(e.verdict.depth == Depth::kFinal, ratio.low, ratio.mid);
  };
  const Experience* best = nullptr;
  for (const Experience& e : experiences) {
    if (e.verdict.passed() && (best == nullptr || rank(e) > rank(*best))) best = &e;
  }
  return best;
}

RunView::RunView(const RunRecord& run_, const std::vector<Experience>& experiences_,
                 const ReportExtras& extras_)
    : run(run_), experiences(experiences_), extras(extras_) {
  best = best_experience(experiences, extras.best_baseline);
  for (const Experience& e : experiences) {
    ++verdicts[{e.verdict.outcome, e.verdict.reason}];
    passed += e.verdict.passed();
    const Experience*& known = by_candidate[e.candidate];
    if (known == nullptr || (e.verdict.passed() && !known->verdict.passed())) known = &e;
  }
  if (best) by_candidate[best->candidate] = best;
}

const Experience* RunView::parent_of(const Experience& e) const {
  for (const Digest& parent : e.lineage.parents) {
    if (const auto found = by_candidate.find(parent); found != by_candidate.end()) return found->second;
  }
  return nullptr;
}

const ShapeWork* RunView::work_of(const std::string& shape) const {
  const auto found = std::find_if(extras.work.begin(), extras.work.end(),
                                  [&](const ShapeWork& work) { return work.shape == shape; });
  return found == extras.work.end() ? nullptr : &*found;
}

}  // namespace lathe
