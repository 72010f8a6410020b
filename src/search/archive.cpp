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
  all_.push_back(std::move(experience));
  const std::size_t index = all_.size() - 1;
  if (fitness(all_[index]) <= 0) return;
  const auto [place, fresh] = cells_.try_emplace(cell, index);
  if (!fresh && fitness(all_[index]) > fitness(all_[place->second])) place->second = index;
}

std::vector<const Experience*> Archive::elites() const {
  std::vector<const Experience*> found;
  for (const auto& [cell, index] : cells_) found.push_back(&all_[index]);
  std::sort(found.begin(), found.end(),
            [&](const Experience* a, const Experience* b) { return fitness(*a) > fitness(*b); });
  return found;
}

std::vector<const Experience*> Archive::best(int count) const {
  std::vector<const Experience*> found;
  for (const Experience& experience : all_)
    if (fitness(experience) > 0 && experience.verdict.depth == Depth::kScreen) found.push_back(&experience);
  std::stable_sort(found.begin(), found.end(),
                   [&](const Experience* a, const Experience* b) { return fitness(*a) > fitness(*b); });
  if (static_cast<int>(found.size()) > count) found.resize(static_cast<std::size_t>(count));
  return found;
}

}  // namespace lathe
