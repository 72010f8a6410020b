#include "policy/catalog/cost/tensor_tile.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lathe::catalog {
namespace {

/// Times of an H200 (results/cuda/contraction.md).
constexpr std::array<TensorTile, 9> kTiles = {{{64, 64, 32, 3, 32, 32, 1, 0.1386, 0.6638},
                                               {64, 64, 32, 4, 32, 16, 1, 0.0854, 0.6955},
                                               {32, 64, 32, 4, 32, 16, 1, 0.5627, 0.2684},
                                               {32, 32, 32, 4, 16, 16, 1, 0.3065, 0.1687},
                                               {32, 32, 32, 4, 16, 16, 2, 0.1736, 0.2744},
                                               {16, 64, 32, 4, 16, 16, 1, 0.2499, 0.1802},
                                               {16, 32, 32, 4, 16, 8, 2, 0.2345, 0.1119},
                                               {64, 16, 32, 4, 16, 16, 1, 0.2595, 0.2367},
                                               {64, 8, 32, 4, 16, 8, 1, 0.2877, 0.1642}}};

constexpr double kMultiprocessors = 132;

/// Floats of a slab of outer x inner elements; GemmSlab::kFloats.
int slab_floats(int outer, int inner, bool along_depth) {
  const int odd = inner % 32 == 8 || inner % 32 == 24 ? inner : inner + 8;
  return outer * (along_depth ? inner + 4 : odd);
}

}  // namespace

int TensorTile::bytes(bool transposed_a, bool transposed_b) const {
  const int a = transposed_a ? slab_floats(depth, rows, false) : slab_floats(rows, depth, true);
  const int b = transposed_b ? slab_floats(columns, depth, true) : slab_floats(depth, columns, false);
  return 4 * std::max(stages * (a + b), slices * rows * (columns + 8));
}

int TensorTile::most_bytes() const {
  return std::max({bytes(false, false), bytes(false, true), bytes(true, false), bytes(true, true)});
}

std::string TensorTile::type(int split, bool transposed_a, bool transposed_b) const {
  std::string text = "TensorGemm<";
  for (const int value : {rows, columns, depth, stages, warp_rows, warp_columns, slices, split})
    text += std::to_string(value) + ", ";
  const auto word = [](bool value) { return value ? "true" : "false"; };
  return text + word(transposed_a) + ", " + word(transposed_b) + ">";
}

std::span<const TensorTile> tensor_tiles() { return kTiles; }

double tensor_microseconds(const TensorTile& tile, int split, const ProductSizes& sizes) {
  constexpr double kLaunch = 1.30452, kBlock = 0.340056, kElement = 4.53243e-6;
  constexpr double kCluster = 0.778158, kClusterBlock = 0.0213847, kClusterElement = 3.43395e-4;
  const double tiles =
      sizes.batch * std::ceil(sizes.rows / tile.rows) * std::ceil(sizes.columns / tile.columns);
  const double area = static_cast<double>(tile.rows) * tile.columns;
  const double steps = std::ceil(std::ceil(sizes.depth / tile.depth) / split);
  const double blocks = std::ceil(tiles * split / kMultiprocessors);
  return kLaunch + (split > 1 ? kCluster + kClusterBlock * split + kClusterElement * area : 0) +
         steps * (tile.step_us + blocks * tile.share_us) + blocks * kBlock + kElement * tiles * area;
}

}  // namespace lathe::catalog
