#include "policy/catalog/cost/warpgroup_tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lathe::catalog {
namespace {

/// Times of an H200 (results/cuda/half.md).
constexpr std::array<WarpgroupTile, 7> kWarpgroupTiles = {
    {{2, 1, 256, 4, 2, true, false, 1, 0.6092, 5.1561},
     {2, 1, 256, 4, 1, true, false, 1, 0.5982, 4.7334},
     {2, 2, 128, 4, 1, true, true, 1, 0.3249, 3.7251},
     {2, 1, 256, 4, 1, true, true, 1, 0.3192, 3.7391},
     {2, 1, 128, 5, 1, false, false, 1, 0.3147, 3.4508},
     {1, 1, 128, 3, 1, false, false, 2, 0.3483, 2.8648},
     {1, 1, 64, 5, 1, false, false, 2, 0.1827, 2.2840}}};

}  // namespace

int WarpgroupTile::bytes(int split) const {
  const int units = tall * columns / 8 * 4 * consumers / split;  // of sums that a block adds up
  const int received = split > 1 ? 512 * units * split : 16;
  const int ring = stages * 2 * kDepth * (rows() + columns), barriers = 16 * stages + 64;
  const int result = split > 1 ? 16 : 4 * (4 * consumers) * 16 * 68;  // rows of 64 columns, a pitch of 68
  return ring + result + received + barriers;
}

std::string WarpgroupTile::type(int split, const TensorFactors& of) const {
  const auto major = [](bool along_k) { return along_k ? "kAlongK" : "kAlongMN"; };
  std::string knobs = fmt::format(".consumers = {}, .tall = {}, .columns = {}, .stages = {}", consumers, tall,
                                  columns, stages);
  const auto add = [&](const char* name, int value) {
    if (value != 1) knobs += fmt::format(", .{} = {}", name, value);
  };
  add("share_b", share_b);
  add("split", split);
  add("blocks", blocks);
  if (persistent) knobs += ", .persistent = true";
  if (in_turn) knobs += ", .in_turn = true";
  knobs += ", .row_store = true";
  return fmt::format("WgmmaGemm<{}, {}, {}, WgmmaKnobs{{{}}}>", info(of.dtype).c_name,
                     major(!of.transposed_a), major(of.transposed_b), knobs);
}

std::span<const WarpgroupTile> warpgroup_tiles() { return kWarpgroupTiles; }

double warpgroup_microseconds(const WarpgroupTile& tile, int split, const ProductSizes& sizes) {
  constexpr double kLaunch = 0.115, kExchange = 1.307, kSharer = 0.0096;
  const double tiles = std::ceil(sizes.rows / (tile.rows() * tile.share_b)) * tile.share_b *
                       std::ceil(sizes.columns / tile.columns);
  const double steps = std::ceil(std::ceil(sizes.depth / WarpgroupTile::kDepth) / split);
  const double waves = std::ceil(tiles * split / (kHopperMultiprocessors * tile.blocks));
  const double together = std::min<double>(tile.blocks, std::ceil(tiles * split / kHopperMultiprocessors));
  return kLaunch + (split > 1 ? kExchange + kSharer * split : 0) +
         waves * (steps * tile.step_us * together + tile.tile_us);
}

}  // namespace lathe::catalog
