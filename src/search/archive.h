#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace lathe {

/// What a search has learned so far: every evaluation, the elites of each behaviour cell
/// (MAP-Elites; all in one where the policy knows no cells), and which texts were tried. Rebuilt
/// from stored experiences, so a resumed search knows what the first one knew.
class Archive {
 public:
  explicit Archive(std::string baseline) : baseline_(std::move(baseline)) {}

  void add(Experience experience, const std::vector<int>& cell);
  bool tried(const Digest& candidate) const { return tried_.contains(candidate); }
  void mark_tried(const Digest& candidate) { tried_.insert(candidate); }

  const History& all() const { return all_; }
  /// The fittest of each cell, best first.
  std::vector<const Experience*> elites() const;
  /// The `count` fittest overall, best first, each candidate once.
  std::vector<const Experience*> best(int count) const;
  /// Lower bound of the speedup over the best peer; 0 for what did not pass. Never a reward by
  /// itself.
  double fitness(const Experience& experience) const;

 private:
  std::string baseline_;
  History all_;
  std::map<std::vector<int>, const Experience*> cells_;  ///< into all_
  std::set<Digest> tried_;
};

}  // namespace lathe
