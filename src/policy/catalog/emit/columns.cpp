#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/terms.h"

// The columns that a convolution multiplies, [N, C taps, positions], of images [N, C, H, W], and
// back.

namespace lathe::catalog {
namespace {

/// What one tap reads along a row of positions, an item.
constexpr std::string_view kUnfold = R"(
const int64_t p = item % $rows, tap = item / $rows % $taps, plane = item / $rows / $taps;
const int64_t h = p * $stride_down - $padding_down + tap / $kernel_across * $dilation_down;
const int64_t at = tap % $kernel_across * $dilation_across - $padding_across;
copy_every($y + item * $columns, $x + (plane * $height + h) * $width, $whole_columns, at, $stride_across,
           h >= 0 && h < $height ? int64_t{$width} : int64_t{0});
)";

/// A row of an image an item: all that taps read there is added up.
constexpr std::string_view kFold = R"(
const int64_t h = item % $height, plane = item / $height;
float* const row = $y + item * $width;
fill_row(row, 0.0f, $whole_width);
for (int64_t a = 0; a < $kernel_down; ++a) {
  const int64_t moved = h + $padding_down - a * $dilation_down;
  const int64_t p = moved / $stride_down;
  if (moved < 0 || moved % $stride_down != 0 || p >= $rows) continue;
  for (int64_t b = 0; b < $kernel_across; ++b)
    add_every(row, $x + (((plane * $kernel_down + a) * $kernel_across + b) * $rows + p) * $columns, $whole_columns,
              b * $dilation_across - $padding_across, $stride_across, $width);
}
)";

/// How often the window fits along an axis.
Expr positions(const Expr& extent, const Window& window, std::size_t axis) {
  const auto number = [](std::int64_t value) { return Expr::constant(value); };
  const std::int64_t reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  return (extent + number(2 * window.padding[axis] - reach + window.stride[axis])) /
         number(window.stride[axis]);
}

Holes holes_of(const Site& site, Program& program, const std::vector<Expr>& image) {
  const Primitive& node = site.node();
  const Window& window = node.window;
  const Expr rows = positions(image[2], window, 1), columns = positions(image[3], window, 2);
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return {{"x", program.parameter(node.in[0])},
          {"y", program.parameter(node.out)},
          {"height", factor(image[2])},
          {"width", factor(image[3])},
          {"whole_width", image[3].to_string()},
          {"rows", factor(rows)},
          {"columns", factor(columns)},
          {"whole_columns", columns.to_string()},
          {"taps", text(window.kernel[1] * window.kernel[2])},
          {"kernel_down", text(window.kernel[1])},
          {"kernel_across", text(window.kernel[2])},
          {"stride_down", text(window.stride[1])},
          {"stride_across", text(window.stride[2])},
          {"padding_down", text(window.padding[1])},
          {"padding_across", text(window.padding[2])},
          {"dilation_down", text(window.dilation[1])},
          {"dilation_across", text(window.dilation[2])}};
}

}  // namespace

Status emit_unfold(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const std::vector<Expr>& image = site.shape_of_input(0);
  const Expr taps = Expr::constant(node.window.kernel[1] * node.window.kernel[2]);
  program.add_pattern("move");
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_unfold",
                  .items = image[0] * image[1] * taps * positions(image[2], node.window, 1),
                  .written = {program.buffer(node.out)},
                  .body = expand(kUnfold, {}, holes_of(site, program, image))});
  return Ok{};
}

Status emit_cpu_fold(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const std::vector<Expr>& image = node.type.shape;
  program.add_pattern("windows");
  program.add_work(copying_work(site));
  program.launch({.name = site.prefix + "_fold",
                  .items = image[0] * image[1] * image[2],
                  .written = {program.buffer(node.out)},
                  .body = expand(kFold, {}, holes_of(site, program, image))});
  return Ok{};
}

}  // namespace lathe::catalog
