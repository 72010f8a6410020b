#pragma once

#include <span>
#include <string>

#include "policy/catalog/cost/tensor_tile.h"

namespace lathe::catalog {

/// How warpgroups compute their tile of a product of 16-bit factors on a Hopper (lathe::WgmmaGemm,
/// whose knobs these are).
struct WarpgroupTile {
  static constexpr int kDepth = 64;  ///< of a step
  int consumers, tall, columns, stages;
  int share_b;  ///< blocks one above the other that load B for each other
  bool persistent, in_turn;
  int blocks;      ///< that fit a multiprocessor
  double step_us;  ///< measured: of a step
  double tile_us;  ///< and what a tile costs besides

  int rows() const { return 64 * tall * (in_turn ? 1 : consumers); }
  int threads() const { return 128 * consumers + (consumers > 1 ? 128 : 32); }
  bool can_split() const { return !persistent && share_b == 1; }
  /// Of shared memory, at most.
  int bytes(int split) const;
  /// "WgmmaGemm<...>" for `split` blocks of a cluster that share a tile's depth.
  std::string type(int split, const TensorFactors& factors) const;
};
std::span<const WarpgroupTile> warpgroup_tiles();

/// A model of the time on a Hopper.
double warpgroup_microseconds(const WarpgroupTile& tile, int split, const ProductSizes& sizes);

}  // namespace lathe::catalog
