#include "policy/catalog/emit/cpu/tile.h"

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

Tile choose_tile(const Site& site, double m, double n) {
  const int lanes = site.program.lanes();
  std::vector<int> allowed;
  int best = 0;
  double least = 0;
  for (const Tile& tile : possible_tiles(lanes)) {
    const int code = tile.rows * 10 + tile.vectors;
    const double cost = tile_cost(tile, lanes, m, n);
    if (allowed.empty() || cost < least) least = cost, best = code;
    allowed.push_back(code);
  }
  const int code = site.knob("tile", allowed, best);
  return {code / 10, code % 10};
}

std::string tile_constants(const Tile& tile, int lanes) {
  return "static_assert(kLanes == " + std::to_string(lanes) +
         ");\nconstexpr int kR = " + std::to_string(tile.rows) + ", kV = " + std::to_string(tile.vectors) +
         ", kW = kV * kLanes;\n";
}

}  // namespace lathe::catalog
