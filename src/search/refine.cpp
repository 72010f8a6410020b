#include "search/refine.h"

#include <algorithm>
#include <map>

namespace lathe {
namespace {

/// The screened attempts of each branch by turn, in order. Of a turn that was evaluated twice the
/// later counts.
using Turns = std::map<std::int64_t, std::shared_ptr<const Attempt>>;
using Branches = std::map<std::int64_t, Turns>;

Branches branches_of(const History& history) {
  Branches branches;
  for (const auto& attempt : history) {
    const Experience& experience = attempt->experience;
    if (experience.lineage.branch >= 0 && experience.verdict.depth != Depth::kFinal)
      branches[experience.lineage.branch][experience.lineage.turn] = attempt;
  }
  return branches;
}

class Refine final : public Strategy {
 public:
  explicit Refine(const RefineOptions& options) : options_(options) {}
  std::string_view name() const override { return "refine"; }

  Result<Step> next(const Situation& situation, Rng& rng) override {
    const Branches branches = branches_of(situation.archive.all());
    const auto asked = [&](std::int64_t branch, std::int64_t turn) {
      return std::ranges::any_of(situation.under_way, [&](const UnderWay& other) {
        return other.branch == branch && other.turn == turn;
      });
    };
    for (std::int64_t batch = 0;; ++batch) {
      Ask first{.independent = true, .group = batch};
      bool done = true;
      for (std::int64_t i = 0; i < options_.branches; ++i) {
        const std::int64_t branch = batch * options_.branches + i;
        const auto found = branches.find(branch);
        const std::int64_t turn = found == branches.end() ? 0 : found->second.rbegin()->first + 1;
        if (turn >= options_.turns) continue;
        done = false;
        if (asked(branch, turn)) continue;
        if (turn > 0) return go_on(situation, {batch, branch, turn}, found->second, rng);
        first.branches.push_back(branch);
      }
      if (static_cast<int>(first.branches.size()) > situation.room)
        first.branches.resize(static_cast<std::size_t>(std::max(0, situation.room)));
      first.count = static_cast<int>(first.branches.size());
      if (first.count > 0) return Step{.ask = std::move(first)};
      if (!done) return Step{.wait = true};
    }
  }

 private:
  struct Place {
    std::int64_t batch, branch, turn;
  };

  Result<Step> go_on(const Situation& situation, const Place& place, const Turns& turns, Rng& rng) const {
    if (Variation* const variation = situation.policy.variation()) {
      const Experience& parent = turns.rbegin()->second->experience;
      LATHE_TRY(Proposal child, variation->mutate(situation.context, parent, rng));
      child.lineage.branch = place.branch;
      child.lineage.turn = place.turn;
      return Step{.proposals = {std::move(child)}};
    }
    Ask ask{.group = place.batch, .branches = {place.branch}, .turn = place.turn};
    ask.use = options_.best_of_history ? HistoryUse::kBest : HistoryUse::kConversation;
    ask.shown.emplace();
    for (const auto& [turn, attempt] : turns) ask.shown->push_back(attempt);
    return Step{.ask = std::move(ask)};
  }

  const RefineOptions options_;
};

}  // namespace

Result<std::unique_ptr<Strategy>> make_refine(const RefineOptions& options) {
  if (options.turns < 1 || options.branches < 1)
    return invalid("a refinement has at least one turn and one branch");
  return std::unique_ptr<Strategy>(std::make_unique<Refine>(options));
}

}  // namespace lathe
