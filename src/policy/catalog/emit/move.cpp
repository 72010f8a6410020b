#include <fmt/format.h>

#include <cmath>

#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {
namespace {

/// Rows of the output around the axis, each copied from its place in the input.
constexpr std::string_view kSlice = R"(
$copy($y + item * $to_row, $x + item * $from_row + $offset, $to_row);
)";

constexpr std::string_view kPadShort = R"(
for (int64_t j = 0; j < $to_row; ++j)
  $y[item * $to_row + j] =
      j >= $offset && j < $offset + $from_row ? $x[item * $from_row + j - $offset] : $fill;
)";

constexpr std::string_view kPadCopy = R"(
$type* row = $y + item * $to_row;
fill_row(row, $fill, $offset);
copy_row(row + $offset, $x + item * $from_row, $from_row);
fill_row(row + $offset + $from_row, $fill, $to_row - $offset - $from_row);
)";

constexpr std::string_view kRoll = R"(
const $type* row = $x + item * $to_row;
$copy($y + item * $to_row, row + $to_row - $offset, $offset);
$copy($y + item * $to_row + $offset, row, $to_row - $offset);
)";

constexpr std::string_view kFlipRow = R"(
for (int64_t j = 0; j < $to_row; ++j)
  $y[item * $to_row + j] = $x[item * $to_row + $to_row - 1 - j];
)";

constexpr std::string_view kFlipRows = R"(
for (int64_t j = 0; j < $extent; ++j)
  copy_row($y + item * $to_row + j * $inner,
           $x + item * $to_row + ($extent - 1 - j) * $inner, $whole_inner);
)";

/// An index outside the table gives NaN.
constexpr std::string_view kGather = R"(
const int64_t at = static_cast<int64_t>($indices[$number]);
$type* to = $y + item * $inner;
$prefetch
if (at >= 0 && at < $rows) {
  $copy(to, $table + $row * $inner, $inner);
} else {
  fill_row(to, __builtin_nanf(""), $inner);
}
)";

/// Single elements: an item is a row of the table, or a block of the indices of its only row.
constexpr std::string_view kGatherElements = R"(
gather_elements($y + item * $count, $table + item * $rows, $indices, $whole_count, $rows);
)";

constexpr std::int64_t kGatherBlock = 1024;
constexpr std::string_view kGatherBlocks = R"(
const int64_t first = item * $block;
gather_elements($y + first, $table, $indices + first, min(int64_t{$block}, $whole_count - first), $rows);
)";

/// The lines along the axis that lie side by side: an item is one element of each.
constexpr std::string_view kTakeAcross = R"(
take_elements($y + item * $inner, $x + item / $count * $from_row, $indices + item * $inner, $whole_inner,
              $extent, $inner, 1);
)";

/// A line that lies in a row.
constexpr std::string_view kTakeRow = R"(
$take($y + item * $count, $x + item * $extent, $indices + item * $count, $whole_count, $extent$apart);
)";

constexpr std::string_view kPrefetch = R"(
if (item + $ahead < end) prefetch_row($table + $indices[item + $ahead] * $inner, $inner);
)";

/// Each row of the output in one go, from a row of every input.
std::string concat_text(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const std::string copy = choose_row_copy(site, lines_along(node.type.shape, node.axes[0]).row());
  std::string code = expand("$type* row = $y + item * $row;\n",
                            {{"type", c_type(node.type.dtype)},
                             {"y", program.parameter(node.out)},
                             {"row", factor(lines_along(node.type.shape, node.axes[0]).row())}});
  Expr offset = Expr::constant(0);
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const Expr row = lines_along(site.shape_of_input(i), node.axes[0]).row();
    code +=
        expand("$copy(row + $offset, $x + item * $row, $length);\n", {{"copy", copy},
                                                                      {"offset", factor(offset)},
                                                                      {"x", program.parameter(node.in[i])},
                                                                      {"row", factor(row)},
                                                                      {"length", row.to_string()}});
    offset = offset + row;
  }
  return code;
}

/// With as many digits as it takes.
std::string number_text(double number, const std::string& type) {
  if (std::isinf(number)) return number < 0 ? "-kInfinity" : "kInfinity";
  return fmt::format("static_cast<{}>({})", type, number);
}

std::string rows_text(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines from = lines_along(site.shape_of_input(0), node.axes[0]);
  const Lines to = lines_along(node.type.shape, node.axes[0]);
  const Holes shared = {{"x", program.parameter(node.in[0])},  {"y", program.parameter(node.out)},
                        {"from_row", factor(from.row())},      {"to_row", factor(to.row())},
                        {"extent", to.extent.to_string()},     {"inner", factor(to.inner)},
                        {"whole_inner", to.inner.to_string()}, {"type", c_type(node.type.dtype)}};
  if (node.how == "flip") return expand(is_one(to.inner) ? kFlipRow : kFlipRows, {}, shared);
  const std::string offset = factor(node.offsets[0] * from.inner);
  if (node.how == "slice" || node.how == "roll")
    return expand(node.how == "roll" ? kRoll : kSlice,
                  {{"copy", choose_row_copy(site, to.row())}, {"offset", offset}}, shared);
  const std::string value = number_text(node.fill, exact_type(node.type.dtype));
  return expand(is_short(site, to.row()) ? kPadShort : kPadCopy, {{"fill", value}, {"offset", offset}},
                shared);
}

/// Whether a processor gathers elements, not rows.
bool gathers_elements(const Site& site) {
  return !site.target.cuda && is_one(lines_along(site.shape_of_input(0), site.node().axes[0]).inner);
}

std::string gather_text(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines table = lines_along(site.shape_of_input(0), node.axes[0]);
  const std::string count = factor(product(site.shape_of_input(1))), rows = factor(table.extent);
  const bool flat = is_one(table.outer);
  if (gathers_elements(site))
    return expand(flat ? kGatherBlocks : kGatherElements, {},
                  {{"y", program.parameter(node.out)},
                   {"table", program.parameter(node.in[0])},
                   {"indices", program.parameter(node.in[1])},
                   {"rows", rows},
                   {"count", count},
                   {"whole_count", product(site.shape_of_input(1)).to_string()},
                   {"block", std::to_string(kGatherBlock)}});
  const int ahead = site.target.cuda ? 0 : site.knob("ahead", {0, 4, 16}, 0);
  const Holes shared = {{"table", program.parameter(node.in[0])},
                        {"indices", program.parameter(node.in[1])},
                        {"inner", factor(table.inner)},
                        {"type", c_type(node.type.dtype)}};
  return expand(
      kGather,
      {{"y", program.parameter(node.out)},
       {"number", flat ? "item" : "item % " + count},
       {"row", flat ? "at" : "(item / " + count + " * " + rows + " + at)"},
       {"rows", rows},
       {"copy", choose_row_copy(site, table.inner)},
       {"prefetch", flat && ahead > 0 ? expand(kPrefetch, {{"ahead", std::to_string(ahead)}}, shared) : ""}},
      shared);
}

/// The kernel's body and items.
void take_along(const Site& site, Program& program, Kernel& kernel) {
  const Primitive& node = site.node();
  const Lines from = lines_along(site.shape_of_input(0), node.axes[0]);
  const Lines to = lines_along(node.type.shape, node.axes[0]);
  const Holes shared = {{"y", program.parameter(node.out)},
                        {"x", program.parameter(node.in[0])},
                        {"indices", program.parameter(node.in[1])},
                        {"extent", factor(from.extent)},
                        {"count", factor(to.extent)}};
  if (!is_one(to.inner)) {
    kernel.items = to.outer * to.extent;
    kernel.body = expand(kTakeAcross,
                         {{"from_row", factor(from.row())},
                          {"inner", factor(to.inner)},
                          {"whole_inner", to.inner.to_string()}},
                         shared);
    return;
  }
  kernel.items = to.outer;
  kernel.body = expand(kTakeRow,
                       {{"take", site.target.cuda ? "take_elements" : "gather_elements"},
                        {"apart", site.target.cuda ? ", 1, 0" : ""},
                        {"whole_count", to.extent.to_string()}},
                       shared);
}

}  // namespace

Status emit_move(const Site& site, Program& program) {
  const Primitive& node = site.node();
  if (node.how == "unfold") return emit_unfold(site, program);
  program.add_pattern("move");
  program.add_work(copying_work(site));
  Kernel kernel{.name = site.prefix + "_" + node.how,
                .items = lines_along(node.type.shape, node.axes[0]).outer,
                .written = {program.buffer(node.out)}};
  if (node.how == "concat") {
    kernel.body = concat_text(site, program);
  } else if (node.how == "gather") {
    const Expr outer = lines_along(site.shape_of_input(0), node.axes[0]).outer;
    const Expr count = product(site.shape_of_input(1));
    kernel.items = outer * count;
    if (gathers_elements(site))
      kernel.items = is_one(outer) ? Expr::apply("cdiv", count, Expr::constant(kGatherBlock)) : outer;
    kernel.body = gather_text(site, program);
  } else if (node.how == "take_along") {
    take_along(site, program, kernel);
  } else {
    kernel.body = rows_text(site, program);
  }
  program.launch(kernel);
  return Ok{};
}

}  // namespace lathe::catalog
