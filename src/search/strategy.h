#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "search/archive.h"

namespace lathe {

/// Decides what to evaluate next. Stateless: everything it may depend on is in the arguments.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  /// Proposals to consider, in order; the loop skips those that were tried. Empty: nothing more to propose.
  virtual Result<std::vector<Proposal>> next(const PolicyContext& context, Policy& policy,
                                             const Archive& archive, Rng& rng) = 0;
};

/// "random": independent draws. "best-of-n": large batches in the order of the policy's own cost model.
/// "evolve": a seeded population, then mutation and crossover of MAP-Elites cells.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name);

}  // namespace lathe
