#pragma once

#include <vector>

#include "policy/catalog/schedule/choices.h"

// How one schedule becomes others.

namespace lathe::catalog {

/// The default schedule with one other value.
std::vector<Schedule> single_changes(const Schedule& taken, const KnobSpace& space);

/// On a GPU the team decides what else is best, so all but the one value takes its default again.
/// Predictions are often equal there: what concerns the whole kernel comes first, then the two
/// values next to each default. Dims that are compiled in help, and take a compilation for each
/// shape: one in four goes without. What a cache is told of goes with any other change: such pairs
/// follow.
std::vector<Schedule> gpu_changes(const Schedule& taken, const KnobSpace& space);

/// One knob takes another of its values; sometimes a second one too.
Schedule mutated(Schedule schedule, const KnobSpace& space, Rng& rng);

/// The knobs of `after` that `before` has not, or with another value.
Schedule difference(const Schedule& before, const Schedule& after);

}  // namespace lathe::catalog
