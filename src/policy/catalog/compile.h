#pragma once

#include <string>
#include <vector>

#include "policy/catalog/cost/cost_model.h"
#include "policy/catalog/lower/lower.h"
#include "policy/catalog/schedule/choices.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// A candidate and what its patterns asked on the way.
struct Emission {
  std::string text;
  std::vector<std::string> patterns;  ///< of each group
  Schedule schedule;                  ///< every knob with its value
  KnobSpace space;                    ///< every knob with its allowed values
  std::vector<std::string> order;     ///< every knob, as they were asked for
  std::vector<Work> work;             ///< one entry a kernel, at the headline shape
};

/// The task as primitives that the target's patterns take.
inline Result<Graph> lower_for(const TaskSpec& task, const Target& target) {
  const bool pairs = target.bf16_pairs && !task.denormals;
  return lower(task, target.cuda ? NarrowProducts::kAsTheyAre
                     : pairs     ? NarrowProducts::kBf16AsTheyAre
                                 : NarrowProducts::kWidened);
}

/// Compiles a graph by a schedule into one candidate text. Unknown knobs are ignored, missing ones
/// take their default, or a random value if `random` is given. Pure otherwise. `target.lanes`
/// bounds register tiles; for a GPU, team and vector are knobs. Errors: a pattern that the target
/// has not.
Result<Emission> compile(const Graph& graph, const Schedule& schedule, Rng* random = nullptr,
                         const Target& target = {});

}  // namespace lathe::catalog
