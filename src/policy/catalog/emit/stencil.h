#pragma once

#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {

/// The loops of an output [N, C, H, W], one an axis; extents of 1 have no axis.
std::vector<Loop> plane_loops(const Group& group);

}  // namespace lathe::catalog
