#include "policy/catalog/emit/epilogue.h"
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
  for (int64_t kh = 0; kh < $kernel_height; ++kh) {
    const int64_t ih = oh * $stride_height - $padding_height + $tap_height;
    if (ih < 0 || ih >= $height) continue;
    for (int64_t kw = 0; kw < $kernel_width; ++kw) {
      const int64_t iw = j * $stride_width - $padding_width + $tap_width;
      const maskv in = lanes & inside(iw, $stride_width, $width);
      const float* tap = plane + ih * $width + iw;
      $accumulate
      $count
    }
  }
  const f32v pooled = $result;
  $epilogue
}
)";

}  // namespace

Status emit_pool(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Window& w = node.window;
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& to = node.type.shape;
  const bool largest = node.how == "max", counts = !largest && !w.count_padding;
  const std::vector<Loop> loops = axis_loops(site.group);
  const Epilogue epilogue = emit_epilogue(site, program, loops, {"n", "c", "oh", "j"}, node.out, "pooled");
  program.add_pattern("stencil");
  program.add_work({.bytes = 4 * site.count(from) + epilogue.bytes,
                    .flops = site.count(to) * static_cast<double>(w.kernel[1] * w.kernel[2]) * 4});
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  const auto tap = [&](std::string name, std::size_t axis) {
    return w.dilation[axis] == 1 ? name : name + " * " + text(w.dilation[axis]);
  };
  const std::string value =
      w.stride[2] == 1 ? "load(tap, in)" : "load_strided(tap, " + text(w.stride[2]) + ", in)";
  const bool clipped = !largest && w.clipped;
  std::string mean = "acc * (1.0f / " + text(w.kernel[1] * w.kernel[2]) + ".0f)";
  if (counts) mean = "acc / counted";
  if (clipped)
    mean = expand(
        "acc / (lathe::min($kernel_width.0f, $behind - (f32v(static_cast<float>(j)) + lane_index()) * "
        "$stride_width.0f) * static_cast<float>($below - oh * $stride_height < $kernel_height ? $below - oh "
        "* $stride_height : "
        "$kernel_height))",
        {{"kernel_width", text(w.kernel[2])},
         {"behind", "static_cast<float>(" + (from[3] + Expr::constant(2 * w.padding[2])).to_string() + ")"},
         {"stride_width", text(w.stride[2])},
         {"kernel_height", text(w.kernel[1])},
         {"below", factor(from[2] + Expr::constant(2 * w.padding[1]))},
         {"stride_height", text(w.stride[1])}});
  program.launch(
      {.name = site.prefix + "_pool",
       .items = to[0] * to[1] * to[2],
       .written = epilogue.written,
       .body =
           expand(kPool, {{"indices", unflatten("item", {loops[0], loops[1], loops[2]}, {"n", "c", "oh"})},
                          {"x", program.parameter(node.in[0])},
                          {"channels", factor(from[1])},
                          {"height", factor(from[2])},
                          {"width", factor(from[3])},
                          {"columns", to[3].to_string()},
                          {"kernel_height", text(w.kernel[1])},
                          {"kernel_width", text(w.kernel[2])},
                          {"stride_height", text(w.stride[1])},
                          {"stride_width", text(w.stride[2])},
                          {"padding_height", text(w.padding[1])},
                          {"padding_width", text(w.padding[2])},
                          {"tap_height", tap("kh", 1)},
                          {"tap_width", tap("kw", 2)},
                          {"start", largest ? "-kInfinity" : "0.0f"},
                          {"declare_count", counts ? "f32v counted(0.0f);" : ""},
                          {"accumulate", largest ? "acc = select(in, max(acc, " + value + "), acc);"
                                                 : "acc = acc + " + value + ";"},
                          {"count", counts ? "counted = counted + select(in, f32v(1.0f), f32v(0.0f));" : ""},
                          {"result", largest ? "acc" : mean},
                          {"epilogue", epilogue.code}})});
  return Ok{};
}

}  // namespace lathe::catalog
