#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/cancel.h"
#include "rl/choice_actor.h"
#include "rl/recipe.h"

namespace lathe::rl {

struct ImitationStep {
  std::int64_t step = 0;  ///< from 1
  std::int64_t steps = 0;
  double relative_entropy = 0;  ///< mean over the tasks, in nats
};

/// Supervised learning before reinforcement: the recipe's `imitation_steps` of all tasks together,
/// at a rate that falls along a half cosine to zero. What a policy must be for its best of a few
/// answers, a table says for every row: as likely as it is good. Reinforcement pays for the single
/// answer, and ends at a few. Errors: kCancelled.
Status imitate(const RlRecipe& recipe, std::span<const std::size_t> tasks, ChoiceActor& actor,
               const CancelToken& cancel, const std::function<void(const ImitationStep&)>& on_step = {});

}  // namespace lathe::rl
