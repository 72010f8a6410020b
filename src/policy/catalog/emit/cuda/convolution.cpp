#include <array>
#include <span>

#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

constexpr int kConvolutionThreads = 256;

/// One thread an element of the result, at n, c, oh, j, or at n, c, od, oh, j.
constexpr std::string_view kDirect = R"(
const int64_t at = item * $threads + threadIdx.x;
if (at >= $count) return;
$indices
float sum = 0.0f;
const int64_t group = c / $outputs;
for (int64_t i = 0; i < $inputs; ++i) {
  const int64_t channel = group * $inputs + i;
  const float* from = $x + (n * $channels + channel) * $volume;
  const float* taps = $w + ($filter) * $kernel_volume;
  $taps
}
$epilogue
)";

constexpr std::string_view kTapLoop = R"(
for (int64_t $tap = 0; $tap < $kernel; ++$tap) {
  $position
  $inside
}
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

/// What the kernel calls a tap of an axis, the position under it, and the result's.
struct AxisNames {
  const char *tap, *at, *out;
};

constexpr std::array<AxisNames, 3> kAxes = {{{"kd", "id", "od"}, {"kh", "ih", "oh"}, {"kw", "iw", "j"}}};

/// Adds the products of one channel: loops over the taps of two axes or of three.
std::string taps_text(const Window& w, std::span<const Expr> extents, std::span<const Expr> kernel) {
  const std::size_t first = kAxes.size() - extents.size();
  std::string at, tap;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto inside = [&](const std::string& outer, const Expr& extent, const char* name) {
      return i == 0 ? std::string(name)
                    : (i == 1 ? outer : "(" + outer + ")") + " * " + factor(extent) + " + " + name;
    };
    at = inside(at, extents[i], kAxes[first + i].at);
    tap = inside(tap, kernel[i], kAxes[first + i].tap);
  }
  std::string text = "sum = lathe::fma(from[" + at + "], taps[" + tap + "], sum);\n";
  for (std::size_t i = extents.size(); i-- > 0;) {
    const AxisNames& names = kAxes[first + i];
    const std::string position =
        tap_text(w, first + i,
                 {{"at", names.at}, {"out", names.out}, {"tap", names.tap}, {"extent", factor(extents[i])}});
    text = expand(
        kTapLoop,
        {{"tap", names.tap}, {"kernel", kernel[i].to_string()}, {"position", position}, {"inside", text}});
  }
  return text;
}

}  // namespace

Status emit_cuda_convolution(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const Window& w = node.window;
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& weights = site.shape_of_input(1);
  const std::vector<Loop> loops = axis_loops(site.group);
  const std::span<const Expr> extents = std::span(from).subspan(2), kernel = std::span(weights).subspan(2);
  const std::vector<std::string> names = extents.size() == 3
                                             ? std::vector<std::string>{"n", "c", "od", "oh", "j"}
                                             : std::vector<std::string>{"n", "c", "oh", "j"};
  const Epilogue epilogue = emit_epilogue(site, program, loops, names, node.out, "sum", Elements::kScalars);
  const Expr count = product(node.type.shape);
  const std::string inputs = factor(Expr::apply("/", from[1], w.groups));
  const std::string outputs = factor(Expr::apply("/", node.type.shape[1], w.groups));
  program.add_pattern("direct");
  program.add_work({.bytes = 8 * site.count(node.type.shape) + epilogue.bytes});
  program.launch_blocks(
      {.name = site.prefix + "_direct",
       .items = Expr::apply("cdiv", count, Expr::constant(kConvolutionThreads)),
       .written = epilogue.written,
       .body = expand(kDirect, {{"threads", std::to_string(kConvolutionThreads)},
                                {"count", count.to_string()},
                                {"indices", unflatten("at", loops, names)},
                                {"outputs", outputs},
                                {"inputs", inputs},
                                {"x", program.parameter(node.in[0])},
                                {"channels", factor(from[1])},
                                {"volume", factor(product(extents))},
                                {"w", program.parameter(node.in[1])},
                                {"filter", w.transposed ? "channel * " + outputs + " + c % " + outputs
                                                        : "c * " + inputs + " + i"},
                                {"kernel_volume", factor(product(kernel))},
                                {"taps", taps_text(w, extents, kernel)},
                                {"epilogue", epilogue.code}})},
      {.threads = kConvolutionThreads});
  return Ok{};
}

}  // namespace lathe::catalog
