#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// A line an item, by its digits. What its keys need is shared by a call's items.
constexpr std::string_view kLine = R"(
const int64_t at = $start;
$sort<$descending>($x + at, $y + at, $n, $step, words);
)";
constexpr std::string_view kWords = R"(
$word* const words = reinterpret_cast<$word*>($scratch) + begin * $each * $n;
)";

/// Rows, or neighbouring columns, an item: one lane each.
constexpr std::string_view kRows = R"(
const LineBlock lines{min(kLanes, $count - item * kLanes), $n, $n, 1};
const int64_t at = item * kLanes * $n;
sort_lines<$descending>($x + at, $y + at, lines, block);
)";
constexpr std::string_view kColumns = R"(
const int64_t outer = item / cdiv($inner, kLanes), j = item % cdiv($inner, kLanes) * kLanes;
const LineBlock lines{min(kLanes, $inner - j), $n, 1, $inner};
const int64_t at = outer * $n * $inner + j;
sort_lines<$descending>($x + at, $y + at, lines, block);
)";

/// Lines up to this are sorted side by side; 0 for none.
int choose_side_by_side(const Site& site, const Lines& lines, bool small) {
  if (!small) return 0;
  const std::int64_t count = site.headline(lines.outer * lines.inner);
  return site.knob("side_by_side", {0, 64, 256, 1024}, count < 4 ? 64 : 1024);
}

}  // namespace

Status emit_cpu_sort(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines lines = lines_along(node.type.shape, node.axes[0]);
  const DType dtype = site.graph.type_of(node.in[0]).dtype;
  const bool values = node.how == "values", small = dtype != DType::kF64 && dtype != DType::kI64;
  const int together = choose_side_by_side(site, lines, small);
  const bool some_longer = most(site.graph, lines.extent) > together;
  const std::string extent = "(" + to_task(site.graph, lines.extent).to_string() + ")",
                    limit = std::to_string(together);
  program.add_pattern("sort");
  program.add_work({.bytes = 8 * site.count(node.type.shape), .flops = 40 * site.count(node.type.shape)});
  const Holes shared = {
      {"x", program.parameter(node.in[0])}, {"y", program.parameter(node.out)},
      {"n", factor(lines.extent)},          {"inner", factor(lines.inner)},
      {"count", factor(lines.outer)},       {"descending", node.reverse ? "true" : "false"}};
  if (together > 0) {
    const bool rows = is_one(lines.inner);
    const Expr most_lines = Expr::constant(site.target.lanes);
    program.launch({.name = site.prefix + "_sort_side_by_side",
                    .items = rows ? Expr::apply("cdiv", lines.outer, most_lines)
                                  : lines.outer * Expr::apply("cdiv", lines.inner, most_lines),
                    .written = {program.buffer(node.out)},
                    .body = expand(rows ? kRows : kColumns, {}, shared),
                    .before = expand("alignas(64) $key block[$limit * kLanes];\n",
                                     {{"key", values ? "uint32_t" : "uint64_t"}, {"limit", limit}}),
                    .when = some_longer ? extent + " <= " + limit : ""});
  }
  if (!some_longer) return Ok{};
  const bool whole_words = !values || !small;
  const std::string each = values ? "2" : "4", word = whole_words ? "uint64_t" : "uint32_t";
  const std::string scratch =
      program.scratch(site.prefix + "_keys",
                      product(node.type.shape) * Expr::constant(std::stoi(each) * (whole_words ? 2 : 1)));
  const std::string start = is_one(lines.inner) ? "item * $n" : "item / $inner * $n * $inner + item % $inner";
  program.launch(
      {.name = site.prefix + "_sort",
       .items = lines.outer * lines.inner,
       .written = {program.buffer(node.out), scratch},
       .body = expand(kLine,
                      {{"start", expand(start, {}, shared)},
                       {"sort", values ? "sort_values" : "sort_places"},
                       {"step", factor(lines.inner)}},
                      shared),
       .before = expand(kWords, {{"word", word}, {"scratch", "p_" + scratch}, {"each", each}}, shared),
       .when = together > 0 ? extent + " > " + limit : ""});
  return Ok{};
}

}  // namespace lathe::catalog
