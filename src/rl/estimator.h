#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::rl {

/// One answer of a policy and what it earned.
struct Turn {
  std::int64_t prompt = 0;       ///< sequences that began with one prompt are compared
  std::int64_t sequence = 0;     ///< unique in a batch
  std::int64_t turn = 0;         ///< of the sequence, from 0
  std::optional<double> reward;  ///< nullopt: the machine failed, so nothing is known of the answer
};

/// Of each turn the discounted sum of its reward and those of its sequence's later turns, G_t = sum
/// over t' >= t of gamma^(t' - t) R_t'. nullopt where it would take a reward that nobody knows.
std::vector<std::optional<double>> returns(std::span<const Turn> turns, double gamma);

/// How much better each turn was than its peers, from their returns; in a batch's gradient the
/// turn's log-probability is weighted with it. nullopt for turns without a return, which no peer's
/// baseline counts. Pure, and independent of the order of turns.
using EstimatorFunction = std::vector<std::optional<double>> (*)(
    std::span<const Turn> turns, std::span<const std::optional<double>> returns);

struct Estimator {
  std::string_view name;
  std::string_view formula;  ///< G: the turn's return; a group is what shares its prompt and turn, N of them
  EstimatorFunction function = nullptr;
};

/// All of them, by name: best_of_16, best_of_4, grpo, grpo_no_std, reinforce, rloo, trloo.
std::span<const Estimator> estimators();

/// Errors: kInvalid; the hint names all that there are.
Result<Estimator> find_estimator(std::string_view name);

}  // namespace lathe::rl
