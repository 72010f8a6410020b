#pragma once

#include <memory>

#include "policy/policy.h"

namespace lathe {

/// The policy that needs no model: patterns with knobs, ordered by a cost model, varied by mutation and
/// crossover of knobs. Deterministic in its arguments.
std::unique_ptr<Policy> make_catalog_policy();

}  // namespace lathe
