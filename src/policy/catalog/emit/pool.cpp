#include "policy/catalog/emit/stencil.h"

namespace lathe::catalog {

std::vector<Loop> plane_loops(const Group& group) {
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < group.space.size(); ++i) {
    const bool one = is_one(group.space[i]);
    loops.push_back(
        {one ? std::vector<int>{} : std::vector<int>{static_cast<int>(i)}, group.space[i], false});
  }
  return loops;
}

/// One output row an item; lanes are its columns, taps outside the input are masked away.
Status emit_pool(const Site& site) {
  const Primitive& node = site.node(0);
  const Window& w = node.window;
  const std::vector<Expr>& from = site.graph().type_of(node.in[0]).shape;
  const bool largest = node.how == "max";
  const std::vector<Loop> loops = plane_loops(site.group);
  const Epilogue epilogue =
      emit_epilogue(site.program, site.group, loops, {"n", "c", "oh", "j"}, node.out, "x_");
  site.program.add_pattern("stencil");
  Work work;
  work.bytes = 4 * headline_count(site.program.graph(), from) + epilogue.bytes;
  work.flops = headline_count(site.program.graph(), node.type.shape) *
               static_cast<double>(w.kernel[0] * w.kernel[1]) * 4;
  site.program.add_work(work);
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::string height = factor(from[2]), width = factor(from[3]);
  std::string code = "for (int64_t item = begin; item < end; ++item) {\n";
  code += unflatten("item", {loops[0], loops[1], loops[2]}, {"n", "c", "oh"});
  code += "const float* plane = " + site.program.parameter(node.in[0]) + " + (n * " + factor(from[1]) +
          " + c) * " + height + " * " + width + ";\n";
  code += "for (int64_t j = 0; j < " + node.type.shape[3].to_string() + "; j += kLanes) {\n";
  code += "const maskv lanes = first_lanes(" + node.type.shape[3].to_string() + " - j);\n";
  code += std::string("f32v acc(") + (largest ? "-kInfinity" : "0.0f") + ");\n";
  if (!largest && !w.count_padding) code += "f32v counted(0.0f);\n";
  code += "for (int64_t kh = 0; kh < " + number(w.kernel[0]) + "; ++kh) {\nconst int64_t ih = oh * " +
          number(w.stride[0]) + " - " + number(w.padding[0]) + " + kh;\nif (ih < 0 || ih >= " + height +
          ") continue;\nfor (int64_t kw = 0; kw < " + number(w.kernel[1]) +
          "; ++kw) {\nconst int64_t iw = j * " + number(w.stride[1]) + " - " + number(w.padding[1]) +
          " + kw;\nconst maskv in = lanes & inside(iw, " + number(w.stride[1]) + ", " + width +
          ");\nconst float* tap = plane + ih * " + width + " + iw;\n";
  const std::string value =
      w.stride[1] == 1 ? "load(tap, in)" : "load_strided(tap, " + number(w.stride[1]) + ", in)";
  code += largest ? "acc = select(in, max(acc, " + value + "), acc);\n" : "acc = acc + " + value + ";\n";
  if (!largest && !w.count_padding) code += "counted = counted + select(in, f32v(1.0f), f32v(0.0f));\n";
  code += "}\n}\n";
  std::string result = "acc";
  if (!largest)
    result =
        w.count_padding ? "acc * (1.0f / " + number(w.kernel[0] * w.kernel[1]) + ".0f)" : "acc / counted";
  code += "const f32v x_ = " + result + ";\n" + epilogue.code + "}\n}\n";
  const Expr items = node.type.shape[0] * node.type.shape[1] * node.type.shape[2];
  site.program.launch(site.prefix + "_pool", items, epilogue.written, code);
  return Ok{};
}

}  // namespace lathe::catalog
