#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {
namespace {

constexpr std::int64_t kBlock = 4096;

/// All that is kept or replaced, a block an item.
constexpr std::string_view kBase = R"(
const int64_t first = item * $block;
copy_row($y + first, $base + first, min(int64_t{$block}, $count - first));
)";

/// What lies outside is nowhere.
constexpr std::string_view kScatter = R"(
const int64_t at = static_cast<int64_t>($indices[item]);
if (at >= 0 && at < $rows) $copy($y + at * $inner, $x + item * $inner, $inner);
)";

/// The sums of a row are found by one thread, in a type that takes any number of terms.
constexpr std::string_view kGroupRows = R"(
int64_t* const first = reinterpret_cast<int64_t*>($scratch);
group_by_place($indices, $n, $rows, first, first + $rows + 1);
)";
constexpr std::string_view kAddRows = R"(
const int64_t* const first = reinterpret_cast<const int64_t*>($scratch);
for (int64_t strip = 0; strip < $inner; strip += $strip) {
  $sum sums[$strip] = {};
  const int64_t columns = min(int64_t{$strip}, $inner - strip);
  add_rows(sums, $x + strip, $inner, columns, first + $rows + 1, first[item], first[item + 1]);
  for (int64_t k = 0; k < columns; ++k) {
    const int64_t at = item * $inner + strip + k;
    $y[at] = static_cast<$type>($base[at] + static_cast<$computed>(sums[k]));
  }
}
)";

/// A share of the items an item, in tables of their own, which are then added up.
constexpr std::string_view kAddShare = R"(
$sum* const own = reinterpret_cast<$sum*>($scratch) + item * $tables * $count;
for (int64_t k = 0; k < $tables * $count; ++k) own[k] = 0;
const int64_t first = $n * item / $shares, end = $n * (item + 1) / $shares;
$add
)";
constexpr std::string_view kAddPlaces = R"(
for (int64_t i = first; i < end; ++i) {
  const int64_t place = static_cast<int64_t>($indices[i]);
  if (place >= 0 && place < $rows)
    for (int64_t k = 0; k < $inner; ++k) own[place * $inner + k] += static_cast<$sum>($x[i * $inner + k]);
}
)";
constexpr std::string_view kJoinShares = R"(
const $sum* const tables = reinterpret_cast<const $sum*>($scratch);
for (int64_t at = item * $block; at < min((item + 1) * $block, int64_t{$n}); ++at) {
  $sum total = 0;
  for (int64_t t = 0; t < $shares * $tables; ++t) total += tables[t * $count + at];
  $y[at] = $total;
}
)";

/// The largest or smallest of what goes to a row is found by one thread.
constexpr std::string_view kExtremumOfRows = R"(
const int64_t* const first = reinterpret_cast<const int64_t*>($scratch);
copy_row($y + item * $inner, $base + item * $inner, $inner);
for (int64_t i = first[item]; i < first[item + 1]; ++i) {
  const auto* const x = $x + first[$rows + 1 + i] * $inner;
  for (int64_t k = 0; k < $inner; ++k) {
    const $computed value = static_cast<$computed>(x[k]), best = static_cast<$computed>($y[item * $inner + k]);
    if (value $beats best || value != value) $y[item * $inner + k] = x[k];
  }
}
)";

/// A segment an item; lanes are columns.
constexpr std::string_view kExtremumOfSegment = R"(
const int64_t first = max(static_cast<int64_t>($offsets[item]), int64_t{0});
const int64_t last = min(static_cast<int64_t>($offsets[item + 1]), int64_t{$rows});
for (int64_t j = 0; j < $inner; j += kLanes) {
  const maskv lanes = first_lanes($inner - j);
  f32v best(first < last ? $start : 0.0f);
  for (int64_t i = first; i < last; ++i) best = $join(best, load($x + i * $inner + j, lanes));
  store($y + item * $inner + j, best, lanes);
}
)";
/// A segment of single elements an item; lanes are its rows.
constexpr std::string_view kExtremumOfElements = R"(
const int64_t first = max(static_cast<int64_t>($offsets[item]), int64_t{0});
const int64_t last = min(static_cast<int64_t>($offsets[item + 1]), int64_t{$rows});
f32v best(first < last ? $start : 0.0f);
for (int64_t i = first; i < last; i += kLanes) best = $join(best, load($x + i, first_lanes(last - i), $start));
$y[item] = $reduce(best);
)";

/// A segment an item; lanes are columns.
constexpr std::string_view kSegment = R"(
const int64_t first = static_cast<int64_t>($offsets[item]);
const int64_t last = min(static_cast<int64_t>($offsets[item + 1]), int64_t{$rows});
for (int64_t j = 0; j < $inner; j += kLanes) {
  const maskv lanes = first_lanes($inner - j);
  f32v total(0.0f);
  for (int64_t part = first < 0 ? 0 : first; part < last; part += $part) {
    f32v acc(0.0f);
    const int64_t end = min(part + $part, last);
    for (int64_t i = part; i < end; ++i) acc = acc + load($x + i * $inner + j, lanes);
    total = total + acc;
  }
  store($y + item * $inner + j, total, lanes);
}
)";

/// A segment of single elements an item; lanes are its rows.
constexpr std::string_view kSegmentOfElements = R"(
const int64_t first = static_cast<int64_t>($offsets[item]);
const int64_t last = min(static_cast<int64_t>($offsets[item + 1]), int64_t{$rows});
f32v total(0.0f);
for (int64_t part = first < 0 ? 0 : first; part < last; part += $part * kLanes) {
  f32v acc(0.0f);
  const int64_t end = min(part + $part * kLanes, last);
  for (int64_t i = part; i < end; i += kLanes) acc = acc + load($x + i, first_lanes(end - i));
  total = total + acc;
}
$y[item] = reduce_add(total);
)";

Status emit_scatter(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines to = lines_along(node.type.shape, 0);
  const std::string y = program.parameter(node.out);
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_base",
                  .items = Expr::apply("cdiv", to.row(), Expr::constant(kBlock)),
                  .written = {program.buffer(node.out)},
                  .body = expand(kBase, {{"y", y},
                                         {"base", program.parameter(node.in[0])},
                                         {"block", std::to_string(kBlock)},
                                         {"count", factor(to.row())}})});
  program.launch({.name = site.prefix + "_scatter",
                  .items = product(site.shape_of_input(1)),
                  .written = {program.buffer(node.out)},
                  .body = expand(kScatter, {{"y", y},
                                            {"x", program.parameter(node.in[2])},
                                            {"indices", program.parameter(node.in[1])},
                                            {"copy", choose_row_copy(site, to.inner)},
                                            {"rows", factor(to.extent)},
                                            {"inner", factor(to.inner)}})});
  return Ok{};
}

Status emit_segment_sum(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines from = lines_along(site.shape_of_input(0), 0);
  const Holes fields = {{"y", program.parameter(node.out)},         {"x", program.parameter(node.in[0])},
                        {"offsets", program.parameter(node.in[1])}, {"rows", from.extent.to_string()},
                        {"part", std::to_string(kPartTerms)},       {"inner", factor(from.inner)}};
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_segments",
                  .items = node.type.shape[0],
                  .written = {program.buffer(node.out)},
                  .body = expand(is_one(from.inner) ? kSegmentOfElements : kSegment, {}, fields)});
  return Ok{};
}

Status emit_segment_extremum(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines from = lines_along(site.shape_of_input(0), 0);
  const bool largest = node.how == "segment_max";
  Holes fields = {{"y", program.parameter(node.out)},
                  {"x", program.parameter(node.in[0])},
                  {"offsets", program.parameter(node.in[1])},
                  {"rows", from.extent.to_string()},
                  {"inner", factor(from.inner)},
                  {"join", largest ? "max" : "min"},
                  {"reduce", largest ? "reduce_max" : "reduce_min"},
                  {"start", largest ? "-__builtin_inff()" : "__builtin_inff()"}};
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_segments",
                  .items = node.type.shape[0],
                  .written = {program.buffer(node.out)},
                  .body = expand(is_one(from.inner) ? kExtremumOfElements : kExtremumOfSegment, {}, fields)});
  return Ok{};
}

/// A type that takes any number of terms; whole numbers may wrap around.
std::string wide_type(DType dtype) {
  if (!info(dtype).is_float) return "int64_t";
  return dtype == DType::kF64 ? "long double" : "double";
}

/// In fp32 numbers.
std::int64_t size_of(const std::string& type) {
  return type == "long double" ? 4 : type == "int32_t" ? 1 : 2;
}

/// Tables that shares fill apart: as many as their sums are worth.
int choose_shares(const Site& site, const Expr& items, const Expr& table) {
  int usual = 1;
  const std::vector<int> allowed = {1, 4, 16, 64};
  for (const int shares : allowed)
    if (2 * shares * site.headline(table) <= site.headline(items)) usual = shares;
  return site.knob("shares", allowed, usual);
}

/// Scratch with the items in the order of their places, behind where each place's begin.
std::string grouped_items(const Site& site, Program& program, const Lines& to, const Expr& items) {
  const std::string scratch =
      program.scratch(site.prefix + "_order", Expr::constant(2) * (to.extent + Expr::constant(1) + items));
  program.launch({.name = site.prefix + "_group",
                  .items = Expr::constant(1),
                  .written = {scratch},
                  .body = expand(kGroupRows, {{"indices", program.parameter(site.node().in[1])},
                                              {"n", items.to_string()},
                                              {"scratch", "p_" + scratch},
                                              {"rows", factor(to.extent)}})});
  return scratch;
}

Status emit_scatter_extremum(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines to = lines_along(node.type.shape, 0);
  program.add_work(copying_work(site));
  const std::string scratch = grouped_items(site, program, to, product(site.shape_of_input(1)));
  program.launch({.name = site.prefix + "_extrema",
                  .items = to.extent,
                  .written = {program.buffer(node.out)},
                  .body = expand(kExtremumOfRows, {{"scratch", "p_" + scratch},
                                                   {"rows", factor(to.extent)},
                                                   {"inner", factor(to.inner)},
                                                   {"x", program.parameter(node.in[2])},
                                                   {"y", program.parameter(node.out)},
                                                   {"base", program.parameter(node.in[0])},
                                                   {"beats", node.how == "scatter_max" ? ">" : "<"},
                                                   {"computed", exact_type(node.type.dtype)}})});
  return Ok{};
}

void add_by_rows(const Site& site, Program& program, const Lines& to, const Expr& items) {
  const Primitive& node = site.node();
  const std::string sum = wide_type(node.type.dtype);
  const std::string scratch = grouped_items(site, program, to, items);
  const Holes shared = {{"scratch", "p_" + scratch}, {"rows", factor(to.extent)}};
  program.launch({.name = site.prefix + "_add_rows",
                  .items = to.extent,
                  .written = {program.buffer(node.out)},
                  .body = expand(kAddRows,
                                 {{"inner", factor(to.inner)},
                                  {"strip", "64"},
                                  {"sum", sum},
                                  {"x", program.parameter(node.in[2])},
                                  {"y", program.parameter(node.out)},
                                  {"base", program.parameter(node.in[0])},
                                  {"type", c_type(node.type.dtype)},
                                  {"computed", exact_type(node.type.dtype)}},
                                 shared)});
}

/// Of single numbers, or of ones.
void add_by_shares(const Site& site, Program& program, const Lines& to, const Expr& items) {
  const Primitive& node = site.node();
  const bool counts = node.how == "bincount";
  const std::string sum = counts ? "int32_t" : wide_type(node.type.dtype);
  const int tables = counts ? 4 : 1;  // so that equal numbers in a row need not wait for each other
  const int shares = choose_shares(site, items, Expr::constant(tables) * to.row());
  const std::string scratch =
      program.scratch(site.prefix + "_tables", Expr::constant(size_of(sum) * tables * shares) * to.row());
  const Holes shared = {{"scratch", "p_" + scratch},
                        {"sum", sum},
                        {"tables", std::to_string(tables)},
                        {"shares", std::to_string(shares)},
                        {"count", factor(to.row())}};
  const Holes operands = {{"indices", program.parameter(node.in[counts ? 0 : 1])},
                          {"rows", factor(to.extent)},
                          {"inner", to.inner.to_string()},
                          {"sum", sum},
                          {"x", counts ? "" : program.parameter(node.in[2])}};
  const std::string add = expand(
      counts ? "count_places($indices + first, end - first, $rows, own);\n" : kAddPlaces, {}, operands);
  program.launch({.name = site.prefix + "_add_shares",
                  .items = Expr::constant(shares),
                  .written = {scratch},
                  .body = expand(kAddShare, {{"n", factor(items)}, {"add", add}}, shared)});
  const std::string total = counts ? "total"
                                   : expand("static_cast<$type>($base[at] + static_cast<$computed>(total))",
                                            {{"type", c_type(node.type.dtype)},
                                             {"computed", exact_type(node.type.dtype)},
                                             {"base", program.parameter(node.in[0])}});
  program.launch({.name = site.prefix + "_join_shares",
                  .items = Expr::apply("cdiv", to.row(), Expr::constant(kBlock)),
                  .written = {program.buffer(node.out)},
                  .body = expand(kJoinShares,
                                 {{"y", program.parameter(node.out)},
                                  {"n", to.row().to_string()},
                                  {"block", std::to_string(kBlock)},
                                  {"total", total}},
                                 shared)});
}

Status emit_scatter_add(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Lines to = lines_along(node.type.shape, 0);
  const Expr items = product(site.shape_of_input(node.how == "bincount" ? 0 : 1));
  program.add_work(copying_work(site));
  const bool by_rows =
      node.how == "add" && site.knob("by_rows", {0, 1}, site.headline(to.inner) < 8 ? 0 : 1) == 1;
  by_rows ? add_by_rows(site, program, to, items) : add_by_shares(site, program, to, items);
  return Ok{};
}

}  // namespace

Status emit_segments(const Site& site, Program& program) {
  program.add_pattern("segments");
  const std::string& how = site.node().how;
  if (how.starts_with("segment_")) return emit_segment_extremum(site, program);
  if (how.starts_with("scatter_")) return emit_scatter_extremum(site, program);
  if (how == "add" || how == "bincount") return emit_scatter_add(site, program);
  return how == "scatter" ? emit_scatter(site, program) : emit_segment_sum(site, program);
}

}  // namespace lathe::catalog
