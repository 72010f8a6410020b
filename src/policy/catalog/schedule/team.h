#pragma once

#include "policy/catalog/fuse/partition.h"
#include "policy/catalog/schedule/choices.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// For a GPU: the target with its team, its vector and whether dims are compiled in, by the knobs
/// "team", "vector" and "fixed".
Target choose_team(const Graph& graph, const Partition& parts, Choices& choices, Target target);

}  // namespace lathe::catalog
