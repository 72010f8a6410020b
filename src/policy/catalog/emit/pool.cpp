#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// One output row an item; lanes are its columns, and taps outside the input are masked away.
constexpr std::string_view kPool = R"(
$indices
const float* plane = $x + (n * $channels + c) * $height * $width;
for (int64_t j = 0; j < $columns; j += kLanes) {
  const maskv lanes = first_lanes($columns - j);
  f32v acc($start);
  $declare_count
  $declare_total
  for (int64_t kh = 0; kh < $kernel_height; ++kh) {
    const int64_t ih = oh * $stride_height - $padding_height + $tap_height;
    if (ih < 0 || ih >= $height) continue;
    for (int64_t kw = 0; kw < $kernel_width; ++kw) {
      const int64_t iw = j * $stride_width - $padding_width + $tap_width;
      const maskv in = lanes & inside(iw, $stride_width, $width);
      const float* tap = plane + ih * $width + iw;
      $accumulate
      $count
      $end_part
    }
  }
  $add_total
  const f32v pooled = $result;
  $epilogue
}
)";

/// One element's window.
constexpr std::string_view kElementWindow = R"(
float acc = $start;
$declare_count
$declare_total
for (int64_t kh = 0; kh < $kernel_height; ++kh) {
  const int64_t ih = oh * $stride_height - $padding_height + $tap_height;
  $skip_row
  for (int64_t kw = 0; kw < $kernel_width; ++kw) {
    const int64_t iw = j * $stride_width - $padding_width + $tap_width;
    $skip_column
    const float tap = plane[ih * $width + iw];
    $accumulate
    $count
    $end_part
  }
}
$add_total
const float pooled = $result;
$epilogue
)";

/// Rows shorter than a vector, one element at a time: a plane an item.
constexpr std::string_view kPoolShort = R"(
$indices
const float* plane = $x + (n * $channels + c) * $height * $width;
for (int64_t oh = 0; oh < $rows; ++oh) {
  for (int64_t j = 0; j < $columns; ++j) {
    $window
  }
}
)";

/// For a GPU: an element a thread, whatever its row.
constexpr int kFlatThreads = 256;
constexpr std::string_view kPoolFlat = R"(
const int64_t element = item * $threads + threadIdx.x;
if (element >= $elements) return;
$indices
const float* plane = $x + (n * $channels + c) * $height * $width;
$window
)";

/// What differs between vectors and single elements.
struct PoolText {
  Elements elements;
  const char *count, *largest, *sum, *counted;
  const char* clipped_mean;  ///< over what of the window lies within the padding
};

constexpr PoolText kPoolOfVectors = {Elements::kVectors,
                                     "f32v counted(0.0f);",
                                     "acc = select(in, max(acc, $value), acc);",
                                     "acc = acc + $value;",
                                     "counted = counted + select(in, f32v(1.0f), f32v(0.0f));",
                                     "acc / (lathe::min($kernel_width.0f, static_cast<float>($behind) - "
                                     "(f32v(static_cast<float>(j)) + lane_index()) * $stride_width.0f) * "
                                     "static_cast<float>($below - oh * $stride_height < $kernel_height ? "
                                     "$below - oh * $stride_height : $kernel_height))"};
constexpr PoolText kPoolOfElements = {
    Elements::kScalars,
    "float counted = 0.0f;",
    "acc = lathe::max(acc, tap);",
    "acc = acc + tap;",
    "counted = counted + 1.0f;",
    "acc / static_cast<float>(($below - oh * $stride_height < $kernel_height ? $below - oh * $stride_height "
    ": "
    "$kernel_height) * ($behind - j * $stride_width < $kernel_width ? $behind - j * $stride_width : "
    "$kernel_width))"};

enum class Shape { kRowOfVectors, kPlaneOfElements, kFlat };

/// Whether rows are so short that vectors would hold little of them.
bool by_element(const Site& site, const Expr& columns) {
  if (!is_short(site, columns)) return false;
  return site.knob("by_value", {0, 1}, 2 * site.headline(columns) <= site.target.lanes ? 1 : 0) == 1;
}

Shape choose_shape(const Site& site, const Expr& columns) {
  if (site.target.cuda && site.knob("flat", {0, 1}, 1) == 1) return Shape::kFlat;
  return by_element(site, columns) ? Shape::kPlaneOfElements : Shape::kRowOfVectors;
}

}  // namespace

Status emit_pool(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Window& w = node.window;
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& to = node.type.shape;
  const bool largest = node.how == "max", counts = !largest && !w.count_padding;
  const std::vector<Loop> loops = axis_loops(site.group);
  const Shape shape = choose_shape(site, to[3]);
  const PoolText& pool = shape == Shape::kRowOfVectors ? kPoolOfVectors : kPoolOfElements;
  const Epilogue epilogue =
      emit_epilogue(site, program, loops, {"n", "c", "oh", "j"}, node.out, "pooled", pool.elements);
  program.add_pattern("stencil");
  program.add_work({.bytes = 4 * site.count(from) + epilogue.bytes,
                    .flops = site.count(to) * static_cast<double>(w.kernel[1] * w.kernel[2]) * 4});
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  const auto tap = [&](std::string name, std::size_t axis) {
    return w.dilation[axis] == 1 ? name : name + " * " + text(w.dilation[axis]);
  };
  const std::string value =
      w.stride[2] == 1 ? "load(tap, in)" : "load_strided(tap, " + text(w.stride[2]) + ", in)";
  std::string accumulate(largest ? pool.largest : pool.sum);
  if (pool.elements == Elements::kVectors) accumulate = expand(accumulate, {{"value", value}});
  std::string mean = "acc * (1.0f / " + text(w.kernel[1] * w.kernel[2]) + ".0f)";
  if (counts) mean = "acc / counted";
  if (!largest && w.rounded_up && w.count_padding)
    mean = expand(pool.clipped_mean, {{"kernel_height", text(w.kernel[1])},
                                      {"kernel_width", text(w.kernel[2])},
                                      {"stride_height", text(w.stride[1])},
                                      {"stride_width", text(w.stride[2])},
                                      {"below", factor(from[2] + Expr::constant(2 * w.padding[1]))},
                                      {"behind", factor(from[3] + Expr::constant(2 * w.padding[2]))}});
  const bool planes = shape == Shape::kPlaneOfElements, flat = shape == Shape::kFlat;
  const bool in_parts = !largest && w.kernel[1] * w.kernel[2] > kSerialTerms;
  const Holes part = {{"type", pool.elements == Elements::kScalars ? "float" : "f32v"},
                      {"part", text(kPartTerms)}};
  const auto where_in_parts = [&](std::string_view code) { return in_parts ? expand(code, {}, part) : ""; };
  std::vector<Loop> outer = {loops[0], loops[1], loops[2]};
  std::vector<std::string> names = {"n", "c", "oh"};
  if (planes) outer.pop_back(), names.pop_back();
  if (flat) outer.push_back(loops[3]), names.emplace_back("j");
  const auto skip = [&](const char* position, const char* extent, std::size_t axis) {
    const std::string at(position);
    const bool inside = w.padding[axis] == 0 && !w.rounded_up;
    return inside ? "" : "if (" + at + " < 0 || " + at + " >= $" + extent + ") continue;";
  };
  const Holes sizes = {{"height", factor(from[2])}, {"width", factor(from[3])}};
  const std::string skip_row = skip("ih", "height", 1), skip_column = skip("iw", "width", 2);
  const Holes fields = {
      {"indices", unflatten(flat ? "element" : "item", outer, names)},
      {"threads", text(kFlatThreads)},
      {"elements", product(to).to_string()},
      {"x", program.parameter(node.in[0])},
      {"channels", factor(from[1])},
      sizes[0],
      sizes[1],
      {"rows", to[2].to_string()},
      {"columns", to[3].to_string()},
      {"kernel_height", text(w.kernel[1])},
      {"kernel_width", text(w.kernel[2])},
      {"stride_height", text(w.stride[1])},
      {"stride_width", text(w.stride[2])},
      {"padding_height", text(w.padding[1])},
      {"padding_width", text(w.padding[2])},
      {"tap_height", tap("kh", 1)},
      {"tap_width", tap("kw", 2)},
      {"skip_row", skip_row.empty() ? "" : expand(skip_row, {}, sizes)},
      {"skip_column", skip_column.empty() ? "" : expand(skip_column, {}, sizes)},
      {"start", largest ? "-kInfinity" : "0.0f"},
      {"declare_count", counts ? pool.count : ""},
      {"accumulate", accumulate},
      {"count", counts ? pool.counted : ""},
      {"declare_total", where_in_parts("$type total(0.0f);\nint64_t terms = 0;\n")},
      {"end_part",
       where_in_parts(
           "if (++terms == $part) {\n  total = total + acc;\n  acc = $type(0.0f);\n  terms = 0;\n}\n")},
      {"add_total", where_in_parts("acc = acc + total;\n")},
      {"result", largest ? "acc" : mean},
      {"epilogue", epilogue.code}};
  Holes window;
  if (pool.elements == Elements::kScalars) window = {{"window", expand(kElementWindow, {}, fields)}};
  const std::string_view body = flat ? kPoolFlat : planes ? kPoolShort : kPool;
  Kernel kernel{.name = site.prefix + "_pool",
                .items = planes ? to[0] * to[1] : to[0] * to[1] * to[2],
                .written = epilogue.written,
                .body = expand(body, window, fields)};
  if (!flat) {
    program.launch(kernel);
  } else {
    kernel.items = Expr::apply("cdiv", product(to), Expr::constant(kFlatThreads));
    program.launch_blocks(kernel, {.threads = kFlatThreads});
  }
  return Ok{};
}

}  // namespace lathe::catalog
