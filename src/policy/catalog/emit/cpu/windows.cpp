#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// The window of element $i, which is as long as its neighbours' or one longer.
constexpr std::string_view kWindow = R"(
const int64_t from = $i * $in / $out, to = cdiv(($i + 1) * $in, $out);
)";

/// A row an item: its windows lie side by side.
constexpr std::string_view kAlongRow = R"(
const $type* row = $x + item * $in;
for (int64_t i = 0; i < $out; ++i) {
  $window
  $y[item * $out + i] = $value;
}
)";

/// A result's row an item, of the rows of its window.
constexpr std::string_view kAcrossRows = R"(
const int64_t i = item % $out;
$window
const float* rows = $x + (item / $out * $in + from) * $inner;
for (int64_t j = 0; j < $inner; j += kLanes) {
  const maskv lanes = first_lanes($inner - j);
  store($y + item * $inner + j, $value, lanes);
}
)";

constexpr std::string_view kCopiedRow = R"(
const int64_t from = item % $out * $in / $out;
$copy($y + item * $inner, $x + (item / $out * $in + from) * $inner, $whole_inner);
)";

}  // namespace

Status emit_cpu_windows(const Site& site, Program& program) {
  const Primitive& node = site.node();
  if (node.how == "fold") return emit_cpu_fold(site, program);
  const Lines from = lines_along(site.shape_of_input(0), node.axes[0]);
  const Lines to = lines_along(node.type.shape, node.axes[0]);
  const bool along_row = is_one(to.inner), first = node.how == "first";
  program.add_pattern("windows");
  program.add_work(copying_work(site));
  const Holes shared = {{"x", program.parameter(node.in[0])}, {"y", program.parameter(node.out)},
                        {"in", factor(from.extent)},          {"out", factor(to.extent)},
                        {"inner", factor(to.inner)},          {"i", "i"},
                        {"type", c_type(node.type.dtype)}};
  const std::string window = expand(kWindow, {}, shared),
                    row = along_row ? "row + from, to - from" : "rows + j, to - from, ",
                    rest = along_row ? ")" : expand("$inner, lanes)", {}, shared);
  const std::string value = first ? "row[from]" : "window_" + node.how + "(" + row + rest;
  Kernel kernel{.name = site.prefix + "_windows",
                .items = along_row ? to.outer : to.outer * to.extent,
                .written = {program.buffer(node.out)}};
  if (first && !along_row) {
    kernel.body =
        expand(kCopiedRow, {{"copy", choose_row_copy(site, to.inner)}, {"whole_inner", to.inner.to_string()}},
               shared);
  } else {
    kernel.body =
        expand(along_row ? kAlongRow : kAcrossRows,
               {{"window", first ? expand("const int64_t from = i * $in / $out;\n", {}, shared) : window},
                {"value", value}},
               shared);
  }
  program.launch(kernel);
  return Ok{};
}

}  // namespace lathe::catalog
