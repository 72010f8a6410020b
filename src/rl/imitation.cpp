#include "rl/imitation.h"

#include <cmath>
#include <numbers>

namespace lathe::rl {

Status imitate(const RlRecipe& recipe, std::span<const std::size_t> tasks, ChoiceActor& actor,
               const CancelToken& cancel, const std::function<void(const ImitationStep&)>& on_step) {
  const auto count = static_cast<double>(tasks.size());
  const auto steps = static_cast<double>(recipe.imitation_steps);
  for (std::int64_t done = 0; done < recipe.imitation_steps; ++done) {
    ImitationStep step{.step = done + 1, .steps = recipe.imitation_steps};
    for (const std::size_t task : tasks) {
      if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "stopped while it imitated"};
      step.relative_entropy +=
          actor.add_imitation_gradient(task, recipe.imitation_temperature, 1 / count) / count;
    }
    const double share = (1 + std::cos(std::numbers::pi * static_cast<double>(done) / steps)) / 2;
    LATHE_CHECK_OK(actor.update(recipe.learning_rate * share, recipe.clip_norm));
    if (on_step) on_step(step);
  }
  return Ok{};
}

}  // namespace lathe::rl
