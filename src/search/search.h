#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/events.h"
#include "gym/evaluator.h"
#include "search/strategy.h"
#include "store/store.h"

namespace lathe {

struct SearchOptions {
  int max_evaluations = 0;   ///< screens; 0: no limit
  double max_seconds = 0;    ///< of screening; 0: no limit
  double total_seconds = 0;  ///< confirmations included, for which a part is kept; 0: no limit
  std::uint64_t seed = 1;
  int in_flight = 4;      ///< proposals under evaluation at once
  int confirmations = 3;  ///< the best of the screen that are evaluated again at `final`
};

/// Everything a search works with. References must outlive the call; of the evaluator and the
/// policy it is the only user meanwhile.
struct SearchContext {
  PolicyContext policy_context;
  Policy& policy;
  Strategy& strategy;
  Evaluator& evaluator;
  Store& store;
  EventSink& events;
  CancelToken stop;  ///< set to end the search cleanly, keeping what is done
};

struct SearchSummary {
  bool interrupted = false;
  bool exhausted = false;  ///< the policy had nothing new to propose
  int evaluations = 0;     ///< screens of this run, earlier sittings included
  double seconds = 0;      ///< of this sitting
};

/// Proposes, evaluates and stores until the budget is spent, then confirms the best at `final`.
/// `run` must be in the store already; evaluations that it holds are taken up, and count towards
/// the budget. While a policy writes, verdicts are taken and stored as they come. What ends INFRA
/// is tried again, at no cost, up to three times; a candidate that fails only by itself is then
/// given up. Errors: kUnavailable where the machine fails for all, after which a resumed search
/// tries the candidate again.
Result<SearchSummary> run_search(const SearchContext& context, const std::string& run,
                                 const SearchOptions& options);

}  // namespace lathe
