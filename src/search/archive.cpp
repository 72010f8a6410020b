#include "search/archive.h"

#include <algorithm>

namespace lathe {

double Archive::fitness(const Experience& experience) const {
  const bool usable = experience.verdict.passed() || experience.verdict.outcome == Outcome::kSuspect;
  const auto speedup = usable ? experience.verdict.speedup(baseline_) : std::nullopt;
  return speedup ? speedup->low : 0;
}

void Archive::add(Experience experience, const std::vector<int>& cell) {
  tried_.insert(experience.candidate);
  const double fitness_of_it = fitness(experience);
  all_.push_back(std::make_shared<const Attempt>(Attempt{std::move(experience), fitness_of_it}));
  const Experience* const added = &all_.back()->experience;
  if (fitness(*added) <= 0) return;
  const auto [place, fresh] = cells_.try_emplace(cell, added);
  if (!fresh && fitness(*added) > fitness(*place->second)) place->second = added;
}

std::vector<const Experience*> Archive::elites() const {
  std::vector<const Experience*> found;
  for (const auto& [cell, elite] : cells_) found.push_back(elite);
  std::sort(found.begin(), found.end(),
            [&](const Experience* a, const Experience* b) { return fitness(*a) > fitness(*b); });
  return found;
}

std::vector<const Experience*> Archive::best(int count) const {
  std::vector<const Experience*> found;
  for (const auto& attempt : all_)
    if (const Experience& e = attempt->experience; fitness(e) > 0 && e.verdict.depth == Depth::kScreen)
      found.push_back(&e);
  std::stable_sort(found.begin(), found.end(),
                   [&](const Experience* a, const Experience* b) { return fitness(*a) > fitness(*b); });
  std::set<Digest> seen;  // a model writes some texts twice
  std::erase_if(found, [&](const Experience* e) { return !seen.insert(e->candidate).second; });
  if (static_cast<int>(found.size()) > count) found.resize(static_cast<std::size_t>(count));
  return found;
}

}  // namespace lathe
