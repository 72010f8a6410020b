#pragma once

#include <memory>

#include "policy/policy.h"

namespace lathe {

/// The policy that needs no model: patterns with knobs, ordered by a cost model, varied by mutation
/// and crossover of knobs. Deterministic in its arguments.
std::unique_ptr<Policy> make_catalog_policy();

/// The catalogue's first choice for the task, as an opponent that the gym may trust; none if it has
/// no pattern for the task.
std::vector<Candidate> catalog_anchors(const PolicyContext& context);

}  // namespace lathe
