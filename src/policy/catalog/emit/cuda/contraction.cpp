#include <algorithm>

#include "policy/catalog/cost/tensor_tile.h"
#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/product.h"

namespace lathe::catalog {
namespace {

constexpr double kFlopsPerMicrosecond = 60e6;  // of the device for which tensor_microseconds speaks
constexpr int kLargestSplit = 8;

constexpr std::string_view kTensorCoreProduct = R"(
using Block = $type;
static_assert(Block::kBytes <= $bytes && Block::kThreads == $threads);
const Block::Place place = Block::place(item, $m, $n);
$batch
const Block block{$a, $b, place.row, place.column, $m, $n, $k};
block.run([&](int64_t row, int64_t j, float x) {
  $epilogue
});
)";

struct TensorPlan {
  TensorTile tile;
  int split;            ///< blocks that share a tile's depth
  int bytes;            ///< of shared memory
  double microseconds;  ///< by the model
};

/// The tile and the split that the model holds for fastest, unless knobs say otherwise.
TensorPlan choose_tensor_tile(const Site& site, const MatrixProduct& of) {
  const auto extent = [&](const Expr& expr) { return static_cast<double>(site.headline(expr)); };
  const ProductSizes at{site.count(of.batch_extents()), extent(of.rows), extent(of.columns),
                        extent(of.depth)};
  const auto bytes = [&](const TensorTile& tile) { return tile.bytes(of.a.transposed, of.b.transposed); };
  const std::span<const TensorTile> tiles = tensor_tiles();
  std::vector<int> allowed, splits;
  for (int split = 1; split <= std::min(kLargestSplit, site.target.cluster); split *= 2)
    splits.push_back(split);
  double least = 0;
  int best = 0, best_split = 1;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (bytes(tiles[i]) > site.target.shared_bytes) continue;
    for (const int split : splits) {
      const double time = tensor_microseconds(tiles[i], split, at);
      if (least == 0 || time < least) least = time, best = static_cast<int>(i), best_split = split;
    }
    allowed.push_back(static_cast<int>(i));
  }
  const TensorTile tile = tiles[static_cast<std::size_t>(site.knob("tile", allowed, best))];
  const int split = site.knob("split", splits, best_split);
  // The same for all products of a tile, so that it can be written before they are looked at.
  const int declared = std::max(bytes(tile), std::min(tile.most_bytes(), site.target.shared_bytes));
  return {tile, split, declared, tensor_microseconds(tile, split, at)};
}

std::string product_text(Program& program, const MatrixProduct& of, const TensorPlan& plan,
                         const Epilogue& epilogue) {
  return expand(
      kTensorCoreProduct,
      {{"type", plan.tile.type(plan.split, of.a.transposed, of.b.transposed)},
       {"bytes", std::to_string(plan.bytes)},
       {"threads", std::to_string(plan.tile.threads())},
       {"batch", of.batch_loops.empty() ? "" : unflatten("place.outer", of.batch_loops, of.batch_names)},
       {"a", program.parameter(of.a.value) + " + " + of.base(of.a)},
       {"b", program.parameter(of.b.value) + " + " + of.base(of.b)},
       {"m", of.rows.to_string()},
       {"n", of.columns.to_string()},
       {"k", of.depth.to_string()},
       {"epilogue", epilogue.code}});
}

}  // namespace

Status emit_cuda_contraction(const Site& site, Program& program) {
  const MatrixProduct of = matrix_product(site);
  const TensorPlan plan = choose_tensor_tile(site, of);
  const Epilogue epilogue =
      emit_epilogue(site, program, of.loops, of.element_indices(), site.node().out, "x", Elements::kScalars);
  program.add_pattern("contraction");
  program.add_work({.flops = plan.microseconds * kFlopsPerMicrosecond});
  const Expr tiles = Expr::apply("cdiv", of.rows, Expr::constant(plan.tile.rows)) *
                     Expr::apply("cdiv", of.columns, Expr::constant(plan.tile.columns));
  program.launch_blocks({.name = site.prefix + "_product",
                         .items = product(of.batch_extents()) * tiles,
                         .written = epilogue.written,
                         .body = product_text(program, of, plan, epilogue)},
                        {.threads = plan.tile.threads(), .cluster = plan.split, .shared_bytes = plan.bytes});
  return Ok{};
}

}  // namespace lathe::catalog
