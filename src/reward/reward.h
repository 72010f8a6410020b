#pragma once

#include <span>
#include <string_view>

#include "record/verdict.h"

namespace lathe {

/// What training and search may maximise: a number from a verdict and the peer that its speedup is
/// over, nothing else. Every reward is 0 for a failure and positive for a correct kernel, and never
/// falls when the lower bound of the speedup rises: a lucky measurement with a wide interval earns
/// nothing. SUSPECT is a failure until a final has passed it. Errors: kUnavailable for INFRA, which
/// says nothing about the candidate, and for a verdict without what the reward needs.
using RewardFunction = Result<double> (*)(const Verdict& verdict, std::string_view peer);

struct Reward {
  std::string_view name;
  std::string_view formula;  ///< C: 1 if correct; S: the lower bound of the speedup, 0 if not timed
  RewardFunction function = nullptr;
  /// What a verdict must say beside its outcome and speedups: "evidence" (of errors, and the text's
  /// length), "launched_share" or "roof". Empty: nothing.
  std::string_view needs = {};
  Depth least_depth = Depth::kScreen;  ///< below which every correct kernel would earn the same, or none
};

/// All of them, by name.
std::span<const Reward> rewards();

/// Errors: kInvalid; the hint names all that there are.
Result<Reward> find_reward(std::string_view name);

/// S: the lower bound of the speedup over `peer`, 0 if it was not timed. A scored shape that the
/// kernel does not cover counts with the smaller of 1 and the others' speedup: a caller would run
/// the peer there, and a kernel must not gain by leaving out shapes at which it is slow.
double speedup_low(const Verdict& verdict, std::string_view peer);

}  // namespace lathe
