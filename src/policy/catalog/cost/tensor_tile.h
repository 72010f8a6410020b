#pragma once

#include <span>
#include <string>

#include "task/dtype.h"

namespace lathe::catalog {

/// A product's factors as tensor cores take them.
struct TensorFactors {
  DType dtype = DType::kF32;
  bool transposed_a = false, transposed_b = false;
};

/// How a block computes its tile of a product (lathe::TensorGemm; for factors of 16 bits
/// lathe::FusedGemm): in steps of `depth`, `stages` of which are in shared memory; each warp sums
/// warp_rows x warp_columns, and `slices` groups of warps share a step.
struct TensorTile {
  int rows, columns, depth, stages, warp_rows, warp_columns, slices;
  double step_us;   ///< measured: of a step, alone on a multiprocessor
  double share_us;  ///< and what each block there adds to it

  int threads() const { return 32 * (rows / warp_rows) * (columns / warp_columns) * slices; }
  /// Of shared memory, as the block's kBytes says.
  int bytes(const TensorFactors& factors) const;
  /// The most of these, whichever factor is transposed.
  int most_bytes(DType dtype) const;
  /// "TensorGemm<...>" for `split` blocks a tile.
  std::string type(int split, const TensorFactors& factors) const;
};
std::span<const TensorTile> tensor_tiles(DType dtype);

/// Of the Hopper for which the tiles' models speak.
inline constexpr double kHopperMultiprocessors = 132;

/// The sizes of a product at one shape.
struct ProductSizes {
  double batch = 1, rows = 1, columns = 1, depth = 1;
};

/// A model of the time on a Hopper where `split` blocks share each tile's depth.
double tensor_microseconds(const TensorTile& tile, int split, const ProductSizes& sizes);

}  // namespace lathe::catalog
