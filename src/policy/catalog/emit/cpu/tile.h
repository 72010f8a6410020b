#pragma once

#include <string>

#include "policy/catalog/cost/register_tile.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// By the knob "tile" (rows * 10 + vectors); the default is the cheapest for m x n.
Tile choose_tile(const Site& site, double m, double n);

/// "constexpr int kR = 14, kV = 2; ..." and the check that the candidate was made for this machine.
std::string tile_constants(const Tile& tile, int lanes);

}  // namespace lathe::catalog
