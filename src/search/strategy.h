#pragma once

#include <cstdint>
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
  bool independent = false;           ///< as in ProposalRequest
  std::optional<History> shown = {};  ///< nullopt: all of the run
  HistoryUse use = HistoryUse::kBest;
  std::int64_t group = -1;                  ///< of the proposals; -1: one of its own
  std::vector<std::int64_t> branches = {};  ///< of each proposal; empty: none
  std::int64_t turn = 0;                    ///< of these branches
};

/// What to do next: ask, or consider proposals that are there already, or wait for what is under
/// way. Neither: there is nothing more to do.
struct Step {
  std::optional<Ask> ask = {};
  std::vector<Proposal> proposals = {};
  bool wait = false;
};

/// A proposal that is being written, waits or is being evaluated.
struct UnderWay {
  std::int64_t branch = -1;
  std::int64_t turn = 0;
};

/// All that a strategy may depend on.
struct Situation {
  const PolicyContext& context;
  Policy& policy;
  const Archive& archive;
  std::vector<UnderWay> under_way = {};
  int room = 0;  ///< evaluations that the budget still has, less those under way
};

/// Decides what to evaluate next. Stateless: everything it may depend on is in the arguments.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  /// Errors: kInvalid for a policy that lacks what the strategy needs.
  virtual Status accept(Policy&) const { return Ok{}; }
  /// The loop skips texts that were tried.
  virtual Result<Step> next(const Situation& situation, Rng& rng) = 0;
};

/// "random": independent draws. "survey": the policy's own first answer, then independent draws:
/// what a table of measured schedules wants. "vary": the first answer, then kernels of one to three
/// changes of it, one in four an independent draw: a table of what is worth choosing among.
/// "best-of-n": large batches in the policy's own order.
/// "evolve": a seeded population, then mutation and crossover of MAP-Elites cells, for policies
/// that can vary kernels. "refine" and "contrast", with their defaults: search/refine.h,
/// search/contrast.h.
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name);

}  // namespace lathe
