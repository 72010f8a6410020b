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

/// Of factors of 16 bits (results/cuda/half.md).
constexpr std::array<TensorTile, 9> kHalfTiles = {{{128, 256, 32, 4, 64, 64, 1, 0.0022, 0.9262},
                                                   {128, 128, 64, 3, 64, 32, 1, 0.0016, 1.0797},
                                                   {128, 128, 32, 4, 64, 32, 1, 0.2044, 0.3223},
                                                   {64, 128, 64, 4, 32, 32, 1, 0.2112, 0.5260},
                                                   {64, 64, 64, 4, 32, 32, 1, 0.2240, 0.2998},
                                                   {32, 64, 64, 4, 16, 16, 1, 0.1932, 0.2049},
                                                   {32, 32, 64, 3, 16, 16, 2, 0.2505, 0.1121},
                                                   {16, 64, 64, 4, 16, 16, 2, 0.1505, 0.1791},
                                                   {64, 16, 64, 4, 16, 16, 1, 0.1849, 0.1882}}};

/// Bytes of a slab of outer x inner elements; GemmSlab::kFloats, HalfSlab::kElements.
int slab_bytes(DType dtype, int outer, int inner, bool along_depth) {
  if (dtype != DType::kF32) return 2 * outer * (inner + 8);
  const int odd = inner % 32 == 8 || inner % 32 == 24 ? inner : inner + 8;
  return 4 * outer * (along_depth ? inner + 4 : odd);
}

}  // namespace

int TensorTile::bytes(const TensorFactors& of) const {
  const int a =
      of.transposed_a ? slab_bytes(of.dtype, depth, rows, false) : slab_bytes(of.dtype, rows, depth, true);
  const int b = of.transposed_b ? slab_bytes(of.dtype, columns, depth, true)
                                : slab_bytes(of.dtype, depth, columns, false);
  return std::max(stages * (a + b), 4 * slices * rows * (columns + 8));
}

int TensorTile::most_bytes(DType dtype) const {
  return std::max({bytes({dtype, false, false}), bytes({dtype, false, true}), bytes({dtype, true, false}),
                   bytes({dtype, true, true})});
}

std::string TensorTile::type(int split, const TensorFactors& of) const {
  std::string text =
      of.dtype == DType::kF32 ? "TensorGemm<" : "FusedGemm<" + std::string(info(of.dtype).c_name) + ", ";
  for (const int value : {rows, columns, depth, stages, warp_rows, warp_columns, slices, split})
    text += std::to_string(value) + ", ";
  const auto word = [](bool value) { return value ? "true" : "false"; };
  return text + word(of.transposed_a) + ", " + word(of.transposed_b) + ">";
}

std::span<const TensorTile> tensor_tiles(DType dtype) {
  if (dtype == DType::kF32) return kTiles;
  return kHalfTiles;
}

double tensor_microseconds(const TensorTile& tile, int split, const ProductSizes& sizes) {
  constexpr double kLaunch = 1.30452, kBlock = 0.340056, kElement = 4.53243e-6;
  constexpr double kCluster = 0.778158, kClusterBlock = 0.0213847, kClusterElement = 3.43395e-4;
  const double tiles =
      sizes.batch * std::ceil(sizes.rows / tile.rows) * std::ceil(sizes.columns / tile.columns);
  const double area = static_cast<double>(tile.rows) * tile.columns;
  const double steps = std::ceil(std::ceil(sizes.depth / tile.depth) / split);
  const double blocks = std::ceil(tiles * split / kHopperMultiprocessors);
  return kLaunch + (split > 1 ? kCluster + kClusterBlock * split + kClusterElement * area : 0) +
         steps * (tile.step_us + blocks * tile.share_us) + blocks * kBlock + kElement * tiles * area;
}

}  // namespace lathe::catalog
