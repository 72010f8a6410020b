#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"

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
  const Holes fields = {{"y", program.parameter(node.out)},
                        {"x", program.parameter(node.in[0])},
                        {"offsets", program.parameter(node.in[1])},
                        {"rows", from.extent.to_string()},
                        {"part", std::to_string(kPartTerms)},
                        {"inner", factor(from.inner)}};
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_segments",
                  .items = node.type.shape[0],
                  .written = {program.buffer(node.out)},
                  .body = expand(is_one(from.inner) ? kSegmentOfElements : kSegment, {}, fields)});
  return Ok{};
}

}  // namespace

Status emit_segments(const Site& site, Program& program) {
  program.add_pattern("segments");
  return site.node().how == "scatter" ? emit_scatter(site, program) : emit_segment_sum(site, program);
}

}  // namespace lathe::catalog
