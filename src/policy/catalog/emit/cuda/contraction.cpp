#include <algorithm>
#include <functional>

#include "policy/catalog/cost/tensor_tile.h"
#include "policy/catalog/cost/warpgroup_tile.h"
#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/product.h"

namespace lathe::catalog {
namespace {

constexpr double kFlopsPerMicrosecond = 60e6;  // of the device for which the tiles' models speak
constexpr int kLargestSplit = 8;
constexpr int kMapAlignment = 8;  // of rows that a map describes, in elements of 16 bits

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

constexpr std::string_view kWarpgroupProduct = R"(
using Block = $type;
static_assert(sizeof(Block::Shared) <= $bytes && Block::kThreads == $threads);
const auto put = [&](int64_t row, int64_t j, float x) {
  $epilogue
};
const GemmCall call = call_of_sizes($m, $n, $k);
Block::run(call, $a, $b, $a, EachElement<decltype(put)>{put, call.m, call.n});
)";

/// What is multiplied, and its sizes at the headline shape.
struct Problem {
  const Site& site;
  const MatrixProduct& of;
  TensorFactors factors;
  ProductSizes sizes;
};

/// Who decides a knob.
using Knob = std::function<int(const std::string& name, const std::vector<int>& allowed, int fallback)>;

int fallback_alone(const std::string&, const std::vector<int>&, int fallback) { return fallback; }

std::vector<int> splits_of(const Target& target) {
  std::vector<int> splits;
  for (int split = 1; split <= std::min(kLargestSplit, target.cluster); split *= 2) splits.push_back(split);
  return splits;
}

/// A tile and the number of blocks that share its depth: of those that fit, the fastest by the
/// model unless knobs say otherwise.
template <class Tile>
struct Cut {
  Tile tile;
  int split;
  double microseconds;
};
template <class Tile, class Fits, class Time>
Cut<Tile> choose_cut(const Target& target, std::span<const Tile> tiles, const Knob& knob, const Fits& fits,
                     const Time& time) {
  const std::vector<int> splits = splits_of(target);
  std::vector<int> allowed;
  double least = 0;
  int best = 0, best_split = 1;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (!fits(tiles[i], 1)) continue;
    allowed.push_back(static_cast<int>(i));
    for (const int split : splits) {
      if (!fits(tiles[i], split)) continue;
      const double now = time(tiles[i], split);
      if (least == 0 || now < least) least = now, best = static_cast<int>(i), best_split = split;
    }
  }
  const Tile tile = tiles[static_cast<std::size_t>(knob("tile", allowed, best))];
  std::vector<int> possible;
  for (const int split : splits)
    if (fits(tile, split)) possible.push_back(split);
  const bool usual = std::ranges::find(possible, best_split) != possible.end();
  const int split = knob("split", possible, usual ? best_split : 1);
  return {tile, split, time(tile, split)};
}

Cut<TensorTile> cut_for_blocks(const Problem& problem, const Knob& knob) {
  const Target& target = problem.site.target;
  const TensorFactors& factors = problem.factors;
  return choose_cut(
      target, tensor_tiles(factors.dtype), knob,
      [&](const TensorTile& tile, int) { return tile.bytes(factors) <= target.shared_bytes; },
      [&](const TensorTile& tile, int split) { return tensor_microseconds(tile, split, problem.sizes); });
}

Cut<WarpgroupTile> cut_for_warpgroups(const Problem& problem, const Knob& knob) {
  const Target& target = problem.site.target;
  return choose_cut(
      target, warpgroup_tiles(), knob,
      [&](const WarpgroupTile& tile, int split) {
        return (split == 1 || tile.can_split()) && tile.bytes(split) <= target.shared_bytes;
      },
      [&](const WarpgroupTile& tile, int split) {
        return warpgroup_microseconds(tile, split, problem.sizes);
      });
}

/// Blocks whose warps multiply by themselves, for any factors.
void emit_blocks(const Problem& problem, const Cut<TensorTile>& cut, Program& program,
                 const Epilogue& epilogue, const std::string& name, const std::string& when) {
  const MatrixProduct& of = problem.of;
  const TensorFactors& factors = problem.factors;
  const TensorTile& tile = cut.tile;
  // The same for all products of a tile, so that it can be written before they are looked at.
  const int bytes = std::max(tile.bytes(factors),
                             std::min(tile.most_bytes(factors.dtype), problem.site.target.shared_bytes));
  const Expr tiles = Expr::apply("cdiv", of.rows, Expr::constant(tile.rows)) *
                     Expr::apply("cdiv", of.columns, Expr::constant(tile.columns));
  const std::string text = expand(
      kTensorCoreProduct,
      {{"type", tile.type(cut.split, factors)},
       {"bytes", std::to_string(bytes)},
       {"threads", std::to_string(tile.threads())},
       {"batch", of.batch_loops.empty() ? "" : unflatten("place.outer", of.batch_loops, of.batch_names)},
       {"a", program.parameter(of.a.value) + " + " + of.base(of.a)},
       {"b", program.parameter(of.b.value) + " + " + of.base(of.b)},
       {"m", of.rows.to_string()},
       {"n", of.columns.to_string()},
       {"k", of.depth.to_string()},
       {"epilogue", epilogue.code}});
  if (factors.dtype != DType::kF32) program.include("lathe/cuda/gemm_fused.cuh");
  program.launch_blocks({.name = problem.site.prefix + name,
                         .items = product(of.batch_extents()) * tiles,
                         .written = epilogue.written,
                         .body = text,
                         .when = when},
                        {.threads = tile.threads(), .cluster = cut.split, .shared_bytes = bytes});
}

/// How far apart a factor's rows lie in memory.
const Expr& row_length(const MatrixProduct& of, const MatrixOperand& operand) {
  if (&operand == &of.a) return operand.transposed ? of.rows : of.depth;
  return operand.transposed ? of.depth : of.columns;
}

/// A factor in boxes of 64 along its rows: `extent` of a block's rows or columns by a step of the
/// depth.
TensorMapDecl map_of(const Problem& problem, const std::string& name, const MatrixOperand& operand,
                     int extent) {
  const MatrixProduct& of = problem.of;
  const bool along_depth = (&operand == &of.a) != operand.transposed;
  const Expr& other = &operand == &of.a ? of.rows : of.columns;
  const Expr& inner = row_length(of, operand);
  return {problem.site.prefix + name,
          operand.value,
          {inner, along_depth ? other : of.depth},
          {64, along_depth ? extent : 64}};
}

/// Warpgroups that multiply what one thread loads by maps of the factors.
void emit_warpgroups(const Problem& problem, const Cut<WarpgroupTile>& cut, Program& program,
                     const Epilogue& epilogue, const std::string& when) {
  const MatrixProduct& of = problem.of;
  const WarpgroupTile& tile = cut.tile;
  const int split = cut.split;
  const TensorMapDecl a = map_of(problem, "_a", of.a, tile.rows());
  const TensorMapDecl b = map_of(problem, "_b", of.b, tile.columns / tile.share_b);
  const std::string text = expand(kWarpgroupProduct, {{"type", tile.type(split, problem.factors)},
                                                      {"bytes", std::to_string(tile.bytes(split))},
                                                      {"threads", std::to_string(tile.threads())},
                                                      {"a", a.name},
                                                      {"b", b.name},
                                                      {"m", of.rows.to_string()},
                                                      {"n", of.columns.to_string()},
                                                      {"k", of.depth.to_string()},
                                                      {"epilogue", epilogue.code}});
  const auto constant = [](int value) { return Expr::constant(value); };
  Expr groups = Expr::apply("cdiv", of.rows, constant(tile.rows() * tile.share_b)) *
                Expr::apply("cdiv", of.columns, constant(tile.columns));
  if (tile.persistent)
    groups =
        Expr::apply("min", groups, Expr::symbol("sm_count") / constant(tile.share_b) * constant(tile.blocks));
  program.include("lathe/cuda/gemm_wgmma.cuh");
  program.launch_blocks({.name = problem.site.prefix + "_warpgroups",
                         .items = groups,
                         .written = epilogue.written,
                         .body = text,
                         .when = when,
                         .maps = {a, b}},
                        {.threads = tile.threads(),
                         .cluster = split * tile.share_b,
                         .shared_bytes = tile.bytes(split),
                         .blocks = tile.blocks});
}

/// Whether maps can describe the factors at the headline shape.
bool suits_warpgroups(const Problem& problem) {
  const auto aligned = [&](const MatrixOperand& operand) {
    return problem.site.headline(row_length(problem.of, operand)) % kMapAlignment == 0;
  };
  return problem.site.target.warpgroups && problem.factors.dtype != DType::kF32 &&
         problem.of.batch_loops.empty() && aligned(problem.of.a) && aligned(problem.of.b);
}

/// By the model, unless a knob says otherwise.
bool takes_warpgroups(const Problem& problem, const Knob& knob) {
  if (!suits_warpgroups(problem)) return false;
  const bool gains = cut_for_warpgroups(problem, fallback_alone).microseconds <
                     cut_for_blocks(problem, fallback_alone).microseconds;
  return knob("warpgroups", {0, 1}, gains ? 1 : 0) == 1;
}

/// When maps can describe the factors, and each of `split` blocks has a step of the depth.
Expr condition_of_warpgroups(const MatrixProduct& of, int split) {
  const auto aligned = [&](const MatrixOperand& operand) {
    const Expr left = Expr::apply("%", row_length(of, operand), Expr::constant(kMapAlignment));
    return Expr::apply("==", left, Expr::constant(0));
  };
  Expr when = aligned(of.a);
  if (!equal(row_length(of, of.a), row_length(of, of.b))) when = Expr::apply("&&", when, aligned(of.b));
  const Expr least = Expr::constant(std::int64_t{WarpgroupTile::kDepth} * (split - 1));
  return split == 1 ? when : Expr::apply("&&", when, Expr::apply(">", of.depth, least));
}

}  // namespace

Status emit_cuda_contraction(const Site& site, Program& program) {
  const MatrixProduct of = matrix_product(site);
  const auto extent = [&](const Expr& expr) { return static_cast<double>(site.headline(expr)); };
  const Problem problem{
      site,
      of,
      {site.graph.type_of(of.a.value).dtype, of.a.transposed, of.b.transposed},
      {site.count(of.batch_extents()), extent(of.rows), extent(of.columns), extent(of.depth)}};
  const Epilogue epilogue =
      emit_epilogue(site, program, of.loops, of.element_indices(), site.node().out, "x", Elements::kScalars);
  const Knob knob = [&](const std::string& name, const std::vector<int>& allowed, int fallback) {
    return site.knob(name, allowed, fallback);
  };
  program.add_pattern("contraction");
  double microseconds = 0;
  if (takes_warpgroups(problem, knob)) {
    const Cut<WarpgroupTile> cut = cut_for_warpgroups(problem, knob);
    const std::string when = program.in_task(condition_of_warpgroups(of, cut.split));
    emit_warpgroups(problem, cut, program, epilogue, when);
    emit_blocks(problem, cut_for_blocks(problem, fallback_alone), program, epilogue, "_others",
                "!(" + when + ")");
    microseconds = cut.microseconds;
  } else {
    const Cut<TensorTile> cut = cut_for_blocks(problem, knob);
    emit_blocks(problem, cut, program, epilogue, "_product", "");
    microseconds = cut.microseconds;
  }
  program.add_work({.flops = microseconds * kFlopsPerMicrosecond});
  return Ok{};
}

}  // namespace lathe::catalog
