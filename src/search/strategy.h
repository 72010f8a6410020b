#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "search/archive.h"

namespace lathe {

/// What to ask a policy for.
struct Ask {
  int count = 1;
  bool independent = false;  ///< as in ProposalRequest
};

/// What to do next: ask, or consider proposals that are there already. Neither: there is nothing more to do.
struct Step {
  std::optional<Ask> ask = {};
  std::vector<Proposal> proposals = {};
};

/// Decides what to evaluate next. Stateless: everything it may depend on is in the arguments.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  /// Errors: kInvalid for a policy that lacks what the strategy needs.
  virtual Status accept(Policy&) const { return Ok{}; }
  /// The loop skips texts that were tried.
  virtual Result<Step> next(const PolicyContext& context, Policy& policy, const Archive& archive,
                            Rng& rng) = 0;
};

/// "random": independent draws. "best-of-n": large batches in the policy's own order. "evolve": a seeded
/// population, then mutation and crossover of MAP-Elites cells, for policies that can vary kernels.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name);

}  // namespace lathe
