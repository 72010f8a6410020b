#include "policy/catalog/emit/cpu/tile.h"

#include "candidate/template.h"

namespace lathe::catalog {

Tile choose_tile(const Site& site, double m, double n) {
  const int lanes = site.target.lanes;
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
  return expand(R"(
static_assert(kLanes == $lanes);
constexpr int kR = $rows, kV = $vectors, kW = kV * kLanes;
)",
                {{"lanes", std::to_string(lanes)},
                 {"rows", std::to_string(tile.rows)},
                 {"vectors", std::to_string(tile.vectors)}});
}

}  // namespace lathe::catalog
