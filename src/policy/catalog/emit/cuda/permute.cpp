#include <array>

#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/permutation.h"

namespace lathe::catalog {
namespace {

constexpr int kPermuteThreads = 256;
constexpr double kElementsOfLargerTiles = 1 << 22;  // whose larger tiles fill a device

/// One thread an element: neighbours in the output and, along the last axis, in the input too.
constexpr std::string_view kElements = R"(
const int64_t at = item * $threads + threadIdx.x;
if (at >= $count) return;
$indices
$y[at] = $x[$from];
)";

/// A block turns a tile round in shared memory (lathe/cuda/turn.cuh).
constexpr std::string_view kTile = R"(
const int64_t across = cdiv($n, $rows), deep = cdiv($p, $columns), tiles = deep * across;
const int64_t outer = quotient(item, tiles), number = item - outer * tiles;
$indices
$corner
const bool wide = ($p) % 4 == 0 && ($n) % 4 == 0$aligned;
turn_tile<$rows, $columns, $threads>(
    wide,
    Turn<$type>{$x + $from + $from_i + p0, $from_stride,
         $y + $to + $to_p + i0, $to_stride,
         $rows_left, $columns_left},
    $hints);
)";

/// Which of a tile's two hints goes to reads and which to stores, by the knob "stream".
constexpr std::array<std::string_view, 4> kHints = {
    "kept_in_cache(), kept_in_cache()", "past_cache(), past_cache()", "last_in_cache(), kept_in_cache()",
    "last_in_cache(), past_cache()"};

struct TilePlan {
  int columns, rows, threads;
  bool down;  ///< neighbouring blocks take neighbouring tiles along the input's last axis
  std::string_view hints;
};

TilePlan choose_tile(const Site& site) {
  const bool small = site.count(site.node().type.shape) < kElementsOfLargerTiles;
  TilePlan plan{};
  plan.columns = site.knob("tile", {32, 64, 128}, small ? 32 : 64);
  plan.rows =
      site.knob("rows", plan.columns == 128 ? std::vector<int>{32, 64} : std::vector<int>{32, 64, 128},
                small ? 32 : 64);
  std::vector<int> sizes;
  for (const int count : {128, 256, 512})
    if (count <= plan.rows * plan.columns / 4) sizes.push_back(count);
  plan.threads = site.knob("threads", sizes, 256);
  plan.down = site.knob("order", {0, 1}, 0) == 1;
  plan.hints = kHints[static_cast<std::size_t>(site.knob("stream", {0, 2, 1, 3}, 1))];
  return plan;
}

/// Elements of `extent` from `begin` on, of which a tile takes `most`.
std::string left(const Site& site, const std::string& extent, const std::string& begin,
                 const std::string& most) {
  const std::string rest = extent + " - " + begin;
  return site.target.fixed ? "(" + extent + ") % " + most + " == 0 ? " + most + " : " + rest : rest;
}

void launch_tiles(const Site& site, Program& program, const Permutation& of, const TilePlan& plan) {
  const PermutedAxis& inner = of.inner_axis();
  const PermutedAxis& last = of.last();
  const std::string n = last.extent.to_string(), p = inner.extent.to_string();
  const std::string x = program.parameter(site.node().in[0]), y = program.parameter(site.node().out);
  const std::string rows = std::to_string(plan.rows), columns = std::to_string(plan.columns);
  const std::string corner =
      plan.down
          ? "const int64_t i0 = quotient(number, deep) * $rows, p0 = residue(number, deep) * $columns;"
          : "const int64_t p0 = quotient(number, across) * $columns, i0 = residue(number, across) * $rows;";
  const Holes sizes = {{"rows", rows}, {"columns", columns}};
  const std::string aligned = expand(" && is_aligned<16>($x) && is_aligned<16>($y)", {{"x", x}, {"y", y}});
  program.launch_blocks(
      {.name = site.prefix + "_transpose",
       .items = of.outer() * (Expr::apply("cdiv", inner.extent, Expr::constant(plan.columns)) *
                              Expr::apply("cdiv", last.extent, Expr::constant(plan.rows))),
       .written = {program.buffer(site.node().out)},
       .body = expand(kTile,
                      {{"n", n},
                       {"p", p},
                       {"indices", unflatten("outer", of.loops, of.names, true)},
                       {"corner", expand(corner, {}, sizes)},
                       {"aligned", site.target.fixed ? "" : aligned},
                       {"threads", std::to_string(plan.threads)},
                       {"type", c_type(site.node().type.dtype)},
                       {"x", x},
                       {"y", y},
                       {"from", of.from},
                       {"to", of.to},
                       {"from_i", times("i0", last.from_stride)},
                       {"to_p", times("p0", inner.to_stride)},
                       {"from_stride", last.from_stride.to_string()},
                       {"to_stride", inner.to_stride.to_string()},
                       {"rows_left", left(site, n, "i0", rows)},
                       {"columns_left", left(site, p, "p0", columns)},
                       {"hints", std::string(plan.hints)}},
                      sizes)},
      {.threads = plan.threads});
}

void launch_elements(const Site& site, Program& program, const Permutation& of) {
  std::vector<Loop> loops;
  std::vector<std::string> names;
  std::string from = "0";
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    names.push_back("ix" + std::to_string(i));
    loops.push_back({{}, of.axes[i].extent, false});
    from += " + " + times(names.back(), of.axes[i].from_stride);
  }
  const Expr count = product(site.node().type.shape);
  program.launch_blocks({.name = site.prefix + "_rows",
                         .items = Expr::apply("cdiv", count, Expr::constant(kPermuteThreads)),
                         .written = {program.buffer(site.node().out)},
                         .body = expand(kElements, {{"threads", std::to_string(kPermuteThreads)},
                                                    {"count", count.to_string()},
                                                    {"indices", unflatten("at", loops, names, true)},
                                                    {"y", program.parameter(site.node().out)},
                                                    {"x", program.parameter(site.node().in[0])},
                                                    {"from", from}})},
                        {.threads = kPermuteThreads});
}

}  // namespace

Status emit_cuda_permute(const Site& site, Program& program) {
  const Permutation of = permutation_of(site);
  program.add_work({.bytes = 8 * site.count(site.node().type.shape)});
  program.add_pattern("transpose");
  if (of.inner < 0) {
    launch_elements(site, program, of);
  } else {
    launch_tiles(site, program, of, choose_tile(site));
  }
  return Ok{};
}

}  // namespace lathe::catalog
