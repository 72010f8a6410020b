#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

constexpr int kConvolutionThreads = 256;

/// One thread an element of the result, at n, c, oh, j.
constexpr std::string_view kDirect = R"(
const int64_t at = item * $threads + threadIdx.x;
if (at >= $count) return;
$indices
float sum = 0.0f;
const int64_t group = c / $outputs;
for (int64_t i = 0; i < $inputs; ++i) {
  const int64_t channel = group * $inputs + i;
  const float* plane = $x + (n * $channels + channel) * $height * $width;
  const float* taps = $w + ($filter) * $kernel_height * $kernel_width;
  for (int64_t kh = 0; kh < $whole_kernel_height; ++kh) {
    $row
    for (int64_t kw = 0; kw < $whole_kernel_width; ++kw) {
      $column
      sum = lathe::fma(plane[ih * $width + iw], taps[kh * $kernel_width + kw], sum);
    }
  }
}
$epilogue
)";

/// The input's position under a tap.
constexpr std::string_view kTap = R"(
const int64_t $at = $out * $stride - $padding + $tap * $dilation;
if ($at < 0 || $at >= $extent) continue;
)";

/// Of a transposed convolution: positions that the stride does not hit have no tap.
constexpr std::string_view kTransposedTap = R"(
const int64_t ${at}_spread = $out + $padding - $tap * $dilation, $at = ${at}_spread / $stride;
if (${at}_spread < 0 || ${at}_spread % $stride != 0 || $at >= $extent) continue;
)";

std::string tap_text(const Window& w, std::size_t axis, const Holes& names) {
  return expand(w.transposed ? kTransposedTap : kTap,
                {{"stride", std::to_string(w.stride[axis])},
                 {"padding", std::to_string(w.padding[axis])},
                 {"dilation", std::to_string(w.dilation[axis])}},
                names);
}

}  // namespace

Status emit_cuda_convolution(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Window& w = node.window;
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& weights = site.shape_of_input(1);
  const std::vector<Loop> loops = axis_loops(site.group);
  const std::vector<std::string> names = {"n", "c", "oh", "j"};
  const Epilogue epilogue = emit_epilogue(site, program, loops, names, node.out, "sum", Elements::kScalars);
  const Expr count = product(node.type.shape);
  const std::string height = factor(from[2]), width = factor(from[3]);
  const std::string inputs = factor(Expr::apply("/", from[1], w.groups));
  const std::string outputs = factor(Expr::apply("/", node.type.shape[1], w.groups));
  program.add_pattern("direct");
  program.add_work({.bytes = 8 * site.count(node.type.shape) + epilogue.bytes});
  program.launch_blocks(
      {.name = site.prefix + "_direct",
       .items = Expr::apply("cdiv", count, Expr::constant(kConvolutionThreads)),
       .written = epilogue.written,
       .body =
           expand(kDirect,
                  {{"threads", std::to_string(kConvolutionThreads)},
                   {"count", count.to_string()},
                   {"indices", unflatten("at", loops, names)},
                   {"outputs", outputs},
                   {"inputs", inputs},
                   {"x", program.parameter(node.in[0])},
                   {"channels", factor(from[1])},
                   {"height", height},
                   {"width", width},
                   {"w", program.parameter(node.in[1])},
                   {"filter",
                    w.transposed ? "channel * " + outputs + " + c % " + outputs : "c * " + inputs + " + i"},
                   {"kernel_height", factor(weights[2])},
                   {"kernel_width", factor(weights[3])},
                   {"whole_kernel_height", weights[2].to_string()},
                   {"whole_kernel_width", weights[3].to_string()},
                   {"row", tap_text(w, 0, {{"at", "ih"}, {"out", "oh"}, {"tap", "kh"}, {"extent", height}})},
                   {"column", tap_text(w, 1, {{"at", "iw"}, {"out", "j"}, {"tap", "kw"}, {"extent", width}})},
                   {"epilogue", epilogue.code}})},
      {.threads = kConvolutionThreads});
  return Ok{};
}

}  // namespace lathe::catalog
