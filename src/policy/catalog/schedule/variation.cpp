#include "policy/catalog/schedule/variation.h"

#include <algorithm>
#include <cmath>

namespace lathe::catalog {
namespace {

/// Every change of a hint with every other change, hint by hint.
std::vector<Schedule> hinted(const std::vector<Schedule>& changes) {
  const auto is_hint = [](const Schedule& change) { return change.begin()->first.ends_with(".stream"); };
  std::vector<Schedule> pairs;
  for (const Schedule& hint : changes) {
    if (!is_hint(hint)) continue;
    for (const Schedule& change : changes) {
      if (is_hint(change)) continue;
      pairs.push_back(change);
      pairs.back().insert(hint.begin(), hint.end());
    }
  }
  return pairs;
}

}  // namespace

std::vector<Schedule> single_changes(const Schedule& taken, const KnobSpace& space) {
  std::vector<Schedule> changes;
  for (const auto& [knob, allowed] : space) {
    for (const int value : allowed) {
      Schedule changed = taken;
      changed[knob] = value;
      changes.push_back(std::move(changed));
    }
  }
  return changes;
}

std::vector<Schedule> gpu_changes(const Schedule& taken, const KnobSpace& space) {
  std::vector<Schedule> near, far, changes;
  for (auto knob = space.rbegin(); knob != space.rend(); ++knob) {
    const auto& [name, allowed] = *knob;
    const auto at = std::ranges::find(allowed, taken.at(name)) - allowed.begin();
    std::vector<std::pair<std::ptrdiff_t, int>> others;
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      const auto distance = std::abs(static_cast<std::ptrdiff_t>(i) - at);
      if (distance > 0 && name != "fixed") others.emplace_back(distance, allowed[i]);
    }
    std::ranges::stable_sort(others, {}, &std::pair<std::ptrdiff_t, int>::first);
    const std::size_t whole = name.find('.') == std::string::npos && name != "fuse" ? 4 : 2;
    for (std::size_t i = 0; i < others.size(); ++i)
      (i < whole ? near : far).push_back({{name, others[i].second}});
  }
  near.insert(near.end(), far.begin(), far.end());
  if (!space.contains("fixed")) return near;
  changes.push_back({{"fixed", 1}});
  std::size_t plain = 0;
  for (const Schedule& change : near) {
    changes.push_back(change);
    changes.back()["fixed"] = 1;
    if (changes.size() % 4 == 0) changes.push_back(near[plain++]);
  }
  for (Schedule& pair : hinted(near)) {
    pair["fixed"] = 1;
    changes.push_back(std::move(pair));
  }
  changes.insert(changes.end(), near.begin() + static_cast<std::ptrdiff_t>(plain), near.end());
  return changes;
}

Schedule mutated(Schedule schedule, const KnobSpace& space, Rng& rng) {
  for (int changes = rng.chance(0.3) ? 2 : 1; changes > 0; --changes) {
    auto knob = space.begin();
    std::advance(knob, static_cast<std::ptrdiff_t>(rng.below(space.size())));
    schedule[knob->first] = knob->second[rng.below(knob->second.size())];
  }
  return schedule;
}

Schedule difference(const Schedule& before, const Schedule& after) {
  Schedule changed;
  for (const auto& [knob, value] : after) {
    const auto old = before.find(knob);
    if (old == before.end() || old->second != value) changed[knob] = value;
  }
  return changed;
}

}  // namespace lathe::catalog
