#pragma once

#include <vector>

namespace lathe::catalog {

/// Accumulators of a register tile: `rows` rows of `vectors` vectors.
struct Tile {
  int rows = 14;
  int vectors = 2;
  int columns(int lanes) const { return vectors * lanes; }
};

/// The tiles that fit the registers: rows * vectors accumulators, vectors operands, one broadcast.
std::vector<Tile> possible_tiles(int lanes);

/// Relative time of an M x N x K product, from the tile's waste at the borders and its loads.
double tile_cost(const Tile& tile, int lanes, double m, double n);

}  // namespace lathe::catalog
