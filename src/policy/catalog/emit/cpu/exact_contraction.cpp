#include <algorithm>

#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/product.h"

namespace lathe::catalog {
namespace {

constexpr std::string_view kPackPanel = R"(
using Product = ExactProduct<$type>;
const int64_t panels = cdiv($n, Product::kColumns);
$batch
const StridedMatrix<$type> b{$b, $b_steps};
Product::Word* const packed = reinterpret_cast<Product::Word*>($scratch);
Product::pack_columns(b, $k, $n, item % panels * Product::kColumns,
                      packed + item * Product::kColumns * Product::steps($k));
)";

/// A block of rows an item.
constexpr std::string_view kProductOfRows = R"(
using Product = ExactProduct<$type>;
$batch
const StridedMatrix<$type> a{$a, $a_steps};
const Product::Word* const packed = reinterpret_cast<const Product::Word*>($scratch);
const int64_t panel = ($matrix) * cdiv($n, Product::kColumns) * Product::kColumns * Product::steps($k);
Product::rows<$block>(a, packed + panel, $k, $m, $n, item % cdiv($m, $block) * $block,
                      $y + item / cdiv($m, $block) * $m * $n);
)";

/// A block of rows an item, of which some may be of other groups than others.
constexpr std::string_view kGroupedRows = R"(
using Product = ExactProduct<$type>;
const StridedMatrix<$type> a{$a, $k, 1};
const Product::Word* const packed = reinterpret_cast<const Product::Word*>($scratch);
const int64_t panel = cdiv($n, Product::kColumns) * Product::kColumns * Product::steps($k);
for (int64_t group = 0; group < $groups; ++group) {
  const int64_t first = max(item * $block, static_cast<int64_t>($offsets[group]));
  const int64_t end = min(min((item + 1) * $block, int64_t{$m}), static_cast<int64_t>($offsets[group + 1]));
  if (first < end) Product::rows<$block>(a, packed + group * panel, $k, end, $n, first, $y);
}
)";

std::string steps_of(const MatrixOperand& operand, const Expr& columns_of_stored) {
  const std::string row = columns_of_stored.to_string();
  return operand.transposed ? "1, " + row : row + ", 1";
}

}  // namespace

Status emit_exact_contraction(const Site& site, Program& program) {
  const MatrixProduct of = matrix_product(site);
  const std::string type = c_type(site.graph.type_of(of.b.value).dtype);
  const bool bytes = type == "int8_t" || type == "uint8_t";
  const std::int64_t word = type == "double" || type == "int64_t" ? 2 : 1;  // in fp32 numbers
  const std::int64_t columns = 2 * site.target.lanes / word;
  const int block = site.knob("rows", {6, 12, 24, 48}, 48);
  const Expr steps = bytes ? Expr::apply("cdiv", of.depth, Expr::constant(2)) : of.depth;
  const Expr panels = Expr::apply("cdiv", of.columns, Expr::constant(columns));
  std::vector<Loop> own;  // of the batch, along which B runs
  std::vector<std::string> names;
  for (std::size_t l = 0; l < of.batch_loops.size(); ++l) {
    if (element(of.b.shape, of.b.place, {of.batch_loops[l]}, {"x"}) == "0") continue;
    own.push_back(of.batch_loops[l]);
    names.push_back(of.batch_names[l]);
  }
  Expr matrices = Expr::constant(1);
  std::string number;
  for (std::size_t l = own.size(); l-- > 0;) {
    number = times(names[l], matrices) + (number.empty() ? "" : " + " + number);
    matrices = matrices * own[l].extent;
  }
  const std::string scratch =
      program.scratch(site.prefix + "_panels", matrices * panels * Expr::constant(columns * word) * steps);
  program.add_pattern("contraction");
  program.add_work(
      {.bytes = 4 * static_cast<double>(word) * site.count(site.node().type.shape),
       .flops = 2 * site.count(site.node().type.shape) * static_cast<double>(site.headline(of.depth))});
  const Holes shared = {
      {"type", type},         {"scratch", "p_" + scratch}, {"n", factor(of.columns)},
      {"m", factor(of.rows)}, {"k", factor(of.depth)},     {"block", std::to_string(block)}};
  const std::string outer = "const int64_t outer = item / ";
  program.launch(
      {.name = site.prefix + "_pack",
       .items = matrices * panels,
       .written = {scratch},
       .body =
           expand(kPackPanel,
                  {{"batch", own.empty() ? "" : outer + "panels;\n" + unflatten("outer", own, names)},
                   {"b", program.parameter(of.b.value) + " + " + element(of.b.shape, of.b.place, own, names)},
                   {"b_steps", steps_of(of.b, of.b.shape.back())}},
                  shared)});
  const std::string batch = of.batch_loops.empty()
                                ? ""
                                : expand("const int64_t outer = item / cdiv($m, $block);\n", {}, shared) +
                                      unflatten("outer", of.batch_loops, of.batch_names);
  program.launch({.name = site.prefix + "_product",
                  .items = product(of.batch_extents()) * Expr::apply("cdiv", of.rows, Expr::constant(block)),
                  .written = {program.buffer(site.node().out)},
                  .body = expand(kProductOfRows,
                                 {{"batch", batch},
                                  {"a", program.parameter(of.a.value) + " + " + of.base(of.a)},
                                  {"a_steps", steps_of(of.a, of.a.shape.back())},
                                  {"matrix", number.empty() ? "0" : number},
                                  {"y", program.parameter(site.node().out)}},
                                 shared)});
  return Ok{};
}

Status emit_grouped_contraction(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const std::vector<Expr>&a = site.shape_of_input(0), &b = site.shape_of_input(1);
  const DType dtype = site.graph.type_of(node.in[1]).dtype;
  const std::int64_t word = dtype == DType::kF64 ? 2 : 1;  // in fp32 numbers
  const std::int64_t columns = 2 * site.target.lanes / word;
  const int block = site.knob("rows", {6, 12, 24, 48}, 24);
  const Expr &depth = a[1], &width = node.type.shape[1];
  const Expr panels = b[0] * Expr::apply("cdiv", width, Expr::constant(columns));
  const std::string scratch =
      program.scratch(site.prefix + "_panels", panels * Expr::constant(columns * word) * depth);
  program.add_pattern("contraction");
  program.add_work({.bytes = 4 * static_cast<double>(word) * (site.count(a) + site.count(b)),
                    .flops = 2 * site.count(node.type.shape) * static_cast<double>(site.headline(depth))});
  const Holes shared = {{"type", c_type(dtype)}, {"scratch", "p_" + scratch},
                        {"n", factor(width)},    {"m", a[0].to_string()},
                        {"k", factor(depth)},    {"block", std::to_string(block)}};
  const std::string row = b[2].to_string();
  program.launch(
      {.name = site.prefix + "_pack",
       .items = panels,
       .written = {scratch},
       .body = expand(kPackPanel,
                      {{"batch", "const int64_t group = item / panels;\n"},
                       {"b", expand("$b + group * $k * $n", {{"b", program.parameter(node.in[1])}}, shared)},
                       {"b_steps", node.transpose_b ? "1, " + row : row + ", 1"}},
                      shared)});
  program.launch({.name = site.prefix + "_product",
                  .items = Expr::apply("cdiv", a[0], Expr::constant(block)),
                  .written = {program.buffer(node.out)},
                  .body = expand(kGroupedRows,
                                 {{"a", program.parameter(node.in[0])},
                                  {"groups", b[0].to_string()},
                                  {"offsets", program.parameter(node.in[2])},
                                  {"y", program.parameter(node.out)}},
                                 shared)});
  return Ok{};
}

}  // namespace lathe::catalog
