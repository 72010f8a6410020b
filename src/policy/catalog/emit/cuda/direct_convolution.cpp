#include "policy/catalog/emit/stencil.h"

namespace lathe::catalog {
namespace {

constexpr int kThreads = 256;

/// Declares `sum`, channels and taps, of one output of a convolution at n, c, oh, j.
std::string convolved_element(const Site& site) {
  const Primitive& node = site.node(0);
  const Window& w = node.window;
  const std::vector<Expr>& from = site.graph().type_of(node.in[0]).shape;
  const std::vector<Expr>& weights = site.graph().type_of(node.in[1]).shape;
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  const std::string height = factor(from[2]), width = factor(from[3]), kernel_width = factor(weights[3]);
  const std::string inputs = factor(Expr::apply("/", from[1], w.groups));
  const std::string outputs = factor(Expr::apply("/", node.type.shape[1], w.groups));
  std::string code = "float sum = 0.0f;\nconst int64_t group = c / " + outputs + ";\n";
  code +=
      "for (int64_t i = 0; i < " + inputs + "; ++i) {\nconst int64_t channel = group * " + inputs + " + i;\n";
  code += "const float* plane = " + site.program.parameter(node.in[0]) + " + (n * " + factor(from[1]) +
          " + channel) * " + height + " * " + width +
          ";\nconst float* taps = " + site.program.parameter(node.in[1]) + " + " +
          (w.transposed ? "(channel * " + outputs + " + c % " + outputs + ")" : "(c * " + inputs + " + i)") +
          " * " + factor(weights[2]) + " * " + kernel_width + ";\n";
  code += "for (int64_t kh = 0; kh < " + weights[2].to_string() + "; ++kh) {\n";
  const auto place = [&](const char* name, const char* out, const char* tap, std::size_t axis,
                         const std::string& extent) {
    const std::string at = std::string(name);
    if (!w.transposed)
      return "const int64_t " + at + " = " + out + " * " + text(w.stride[axis]) + " - " +
             text(w.padding[axis]) + " + " + tap + " * " + text(w.dilation[axis]) + ";\nif (" + at +
             " < 0 || " + at + " >= " + extent + ") continue;\n";
    const std::string spread = at + "_spread";
    return "const int64_t " + spread + " = " + out + " + " + text(w.padding[axis]) + " - " + tap + " * " +
           text(w.dilation[axis]) + ", " + at + " = " + spread + " / " + text(w.stride[axis]) + ";\nif (" +
           spread + " < 0 || " + spread + " % " + text(w.stride[axis]) + " != 0 || " + at + " >= " + extent +
           ") continue;\n";
  };
  code += place("ih", "oh", "kh", 0, height) + "for (int64_t kw = 0; kw < " + weights[3].to_string() +
          "; ++kw) {\n" + place("iw", "j", "kw", 1, width);
  code += "sum = lathe::fma(plane[ih * " + width + " + iw], taps[kh * " + kernel_width +
          " + kw], sum);\n}\n}\n}\n";
  return code;
}

}  // namespace

Status emit_direct_convolution(const Site& site) {
  const Primitive& node = site.node(0);
  const std::vector<Loop> loops = plane_loops(site.group);
  const std::vector<std::string> names = {"n", "c", "oh", "j"};
  const Epilogue epilogue =
      emit_epilogue(site.program, site.group, loops, names, node.out, "sum", Elements::kScalars);
  const Expr count = product(node.type.shape);
  std::string code = "const int64_t at = item * " + std::to_string(kThreads) +
                     " + threadIdx.x;\nif (at >= " + count.to_string() + ") return;\n";
  code += unflatten("at", loops, names) + convolved_element(site);
  site.program.add_pattern("direct");
  Work work;
  work.bytes = 8 * headline_count(site.program.graph(), node.type.shape) + epilogue.bytes;
  site.program.add_work(work);
  site.program.launch_blocks(site.prefix + "_direct", Expr::apply("cdiv", count, Expr::constant(kThreads)),
                             kThreads, epilogue.written, code + epilogue.code);
  return Ok{};
}

}  // namespace lathe::catalog
