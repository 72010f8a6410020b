#include "report/report.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "report/html.h"
#include "report/page.h"
#include "report/page_parts.h"

namespace lathe {
namespace {

/// Verdicts of old name no tier.
bool has_mixed_tiers(const std::vector<Experience>& experiences) {
  std::set<std::string> tiers;
  for (const Experience& experience : experiences) tiers.insert(experience.verdict.provenance.tier);
  tiers.erase("");
  return tiers.size() > 1;
}

}  // namespace

Result<std::string> render_report(const RunRecord& run, const std::vector<Experience>& experiences,
                                  const ReportExtras& extras) {
  const bool timed = std::any_of(extras.baselines.begin(), extras.baselines.end(),
                                 [&](const BaselineTime& b) { return b.name == extras.best_baseline; });
  if (!timed && !(extras.baselines.empty() && extras.best_baseline.empty()))
    return invalid("the best baseline '" + extras.best_baseline + "' is not among those timed");
  if (has_mixed_tiers(experiences))
    return invalid("the run's verdicts are of different tiers, which have nothing in common to compare");

  const RunView view(run, experiences, extras);
  return page_text(run.task_name, page_header(view) + "<main>\n" + summary_cards(view) +
                                      section("Against the baselines", baseline_table(view)) +
                                      section("Speedup at each shape", interval_chart(view)) +
                                      section("Search progress", progress_chart(view)) +
                                      section("Roofline", roofline_chart(view)) +
                                      section("Verdicts", verdict_table(view)) +
                                      section("The winning kernel", kernel_listing(view)) +
                                      section("Where it came from", lineage_chart(view)) +
                                      section("Evidence that it is correct", evidence_table(view)) +
                                      section("The run", details_section(view)) + "</main>\n");
}

std::vector<const Experience*> ranked_experiences(const std::vector<Experience>& experiences,
                                                  const std::string& best_baseline) {
  const auto rank = [&](const Experience* e) {
    const Interval ratio = e->verdict.speedup(best_baseline).value_or(Interval{});
    return std::tuple(e->verdict.depth == Depth::kFinal, ratio.low, ratio.mid);
  };
  // A candidate that a final has refuted is none that passed, whatever a screen saw.
  std::set<Digest> refuted;
  for (const Experience& e : experiences)
    if (e.verdict.depth == Depth::kFinal && !e.verdict.passed() && e.verdict.outcome != Outcome::kInfra)
      refuted.insert(e.candidate);
  std::vector<const Experience*> ranked;
  for (const Experience& e : experiences)
    if (e.verdict.passed() && !refuted.contains(e.candidate)) ranked.push_back(&e);
  std::ranges::stable_sort(ranked, std::ranges::greater{}, rank);
  std::set<Digest> seen;
  std::erase_if(ranked, [&](const Experience* e) { return !seen.insert(e->candidate).second; });
  return ranked;
}

double device_seconds(const std::vector<Experience>& experiences) {
  double seconds = 0;
  for (const Experience& experience : experiences)
    for (const char* stage : {"verify", "time", "reverify", "profile"})
      if (const auto spent = experience.verdict.stage_seconds.find(stage);
          spent != experience.verdict.stage_seconds.end())
        seconds += spent->second;
  return seconds;
}

const Experience* best_experience(const std::vector<Experience>& experiences,
                                  const std::string& best_baseline) {
  const auto ranked = ranked_experiences(experiences, best_baseline);
  return ranked.empty() ? nullptr : ranked.front();
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
