#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/permutation.h"

namespace lathe::catalog {
namespace {

/// The last axis stays last: rows are copied.
constexpr std::string_view kRow = R"(
$indices
$copy($y + $to, $x + $from, $n);
)";

/// Finding a row takes longer than copying a short one: an item is a run of rows.
constexpr std::string_view kRunOfRows = R"(
$indices
for (int64_t $row = 0; $row < $rows; ++$row)
  $copy($y + $to, $x + $from, $n);
)";

/// Blocks of kLanes x kLanes elements turn in registers, between the output's last axis and the
/// input's.
constexpr std::string_view kBlocks = R"(
const int64_t outer = item / cdiv($p, kBlock), p0 = item % cdiv($p, kBlock) * kBlock;
$indices
$first_loop
  $second_loop
    transpose_block($x + $from + $from_i + p, $from_stride,
                    $y + $to + $to_p + i, $to_stride,
                    min(kLanes, $n - i), min(kLanes, $p - p));
)";

/// How blocks follow each other.
struct BlockPlan {
  int rows = 32;               ///< of the input's last axis, in an item
  bool columns_first = false;  ///< through the output's last axis in the inner loop
};

BlockPlan choose_blocks(const Site& site) {
  const int rows = 16 * site.knob("block", {1, 2, 4, 8}, 2);
  return {.rows = rows, .columns_first = site.knob("order", {0, 1}, 0) == 1};
}

Kernel copy_rows(const Site& site, Program& program, Permutation of) {
  Holes holes = {{"x", program.parameter(site.node().in[0])},
                 {"y", program.parameter(site.node().out)},
                 {"copy", choose_row_copy(site, of.last().extent)},
                 {"from", of.from},
                 {"to", of.to},
                 {"n", of.last().extent.to_string()}};
  std::string_view text = kRow;
  if (!of.loops.empty()) {
    text = kRunOfRows;
    holes.emplace_back("row", of.names.back());
    holes.emplace_back("rows", of.loops.back().extent.to_string());
    of.loops.pop_back();
    of.names.pop_back();
  }
  holes.emplace_back("indices", unflatten("item", of.loops, of.names));
  return {.name = site.prefix + "_rows", .items = of.outer(), .body = expand(text, holes)};
}

Kernel transpose_blocks(const Site& site, Program& program, const Permutation& of, const BlockPlan& plan) {
  const PermutedAxis& inner = of.inner_axis();
  const PermutedAxis& last = of.last();
  const std::string n = last.extent.to_string(), p = inner.extent.to_string();
  const std::string over_rows = expand("for (int64_t i = 0; i < $n; i += kLanes)", {{"n", n}});
  const std::string over_columns =
      expand("for (int64_t p = p0; p < min(p0 + kBlock, $p); p += kLanes)", {{"p", p}});
  return {
      .name = site.prefix + "_transpose",
      .items = of.outer() * Expr::apply("cdiv", inner.extent, Expr::constant(plan.rows)),
      .body = expand(kBlocks, {{"indices", of.loops.empty() ? "" : unflatten("outer", of.loops, of.names)},
                               {"first_loop", plan.columns_first ? over_columns : over_rows},
                               {"second_loop", plan.columns_first ? over_rows : over_columns},
                               {"x", program.parameter(site.node().in[0])},
                               {"y", program.parameter(site.node().out)},
                               {"from", of.from},
                               {"to", of.to},
                               {"from_i", times("i", last.from_stride)},
                               {"to_p", times("p", inner.to_stride)},
                               {"from_stride", last.from_stride.to_string()},
                               {"to_stride", inner.to_stride.to_string()},
                               {"n", n},
                               {"p", p}}),
      .before = "constexpr int64_t kBlock = " + std::to_string(plan.rows) + ";\n"};
}

}  // namespace

Status emit_cpu_permute(const Site& site, Program& program) {
  const Permutation of = permutation_of(site);
  program.add_work({.bytes = 8 * site.count(site.node().type.shape)});
  program.add_pattern("transpose");
  Kernel kernel =
      of.inner < 0 ? copy_rows(site, program, of) : transpose_blocks(site, program, of, choose_blocks(site));
  kernel.written = {program.buffer(site.node().out)};
  program.launch(kernel);
  return Ok{};
}

}  // namespace lathe::catalog
