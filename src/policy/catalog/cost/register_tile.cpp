#include "policy/catalog/cost/register_tile.h"

#include <algorithm>
#include <cmath>

namespace lathe::catalog {

std::vector<Tile> possible_tiles(int lanes) {
  const int registers = lanes >= 16 ? 32 : 16;
  std::vector<Tile> tiles;
  for (const int vectors : {1, 2, 3, 4, 6, 8}) {
    const int most = (registers - 1 - vectors) / vectors;
    for (int rows = most; rows >= 1; rows -= rows > 16 ? 4 : rows > 8 ? 1 : 2)
      if (rows * vectors >= 4) tiles.push_back({rows, vectors});
  }
  return tiles;
}

double tile_cost(const Tile& tile, int lanes, double m, double n) {
  const double down = std::ceil(m / tile.rows), across = std::ceil(n / tile.columns(lanes));
  const double products = tile.rows * tile.vectors, loads = tile.vectors + 0.5 * tile.rows;
  const double cycles = std::max({products, loads, 4.0}) + 0.05 * loads;
  return down * across * cycles;
}

}  // namespace lathe::catalog
