#include "prompt/task_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "prompt/fence.h"

namespace lathe {
namespace {

using Strings = std::vector<std::string>;

std::string joined(const Strings& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string extents(const std::vector<Expr>& shape) {
  Strings parts;
  for (const Expr& extent : shape) parts.push_back(extent.to_string());
  return parts.empty() ? "scalar" : "[" + joined(parts, ", ") + "]";
}

struct AttrText {
  std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", text); }
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(const Strings& texts) const { return fmt::format("[{}]", fmt::join(texts, ", ")); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  template <class Number>
  std::string operator()(Number number) const {
    return fmt::format("{}", number);
  }
};

std::string graph_text(const TaskSpec& task) {
  std::string text;
  for (const NodeDecl& node : task.nodes) {
    Strings parts = node.in;
    for (const auto& [name, value] : node.attrs.all())
      parts.push_back(name + " = " + std::visit(AttrText{}, value));
    text += fmt::format("{} = {}({})\n", node.out, node.op_name, joined(parts, ", "));
  }
  return text.empty() ? std::string() : fenced(text);
}

std::string dims_text(const TaskSpec& task) {
  Strings parts;
  for (const std::string& name : task.dim_names) {
    const auto range = task.dim_ranges.find(name);
    parts.push_back(range == task.dim_ranges.end()
                        ? name
                        : fmt::format("{} from {} to {}", name, range->second.low, range->second.high));
  }
  std::string text = joined(parts, ", ");
  if (task.where) text += ", where " + task.where->to_string();
  return text;
}

std::string inputs_text(const TaskSpec& task) {
  Strings parts;
  for (const TensorDecl& tensor : task.tensors) {
    std::string part = fmt::format("{}: {} {}", tensor.name, info(tensor.dtype).name, extents(tensor.shape));
    if (tensor.role == Role::kParameter) part += " (parameter)";
    if (tensor.role == Role::kInOut) part += " (read, then overwritten)";
    if (tensor.value) part += fmt::format(" = {}", *tensor.value);
    parts.push_back(std::move(part));
  }
  return joined(parts, "; ");
}

std::string outputs_text(const TaskSpec& task) {
  Strings parts;
  for (const OutputDecl& output : task.outputs)
    parts.push_back(fmt::format("{}: {} {}", output.name, info(output.dtype).name, extents(output.shape)));
  return joined(parts, "; ");
}

std::string shapes_text(const TaskSpec& task) {
  Strings parts;
  for (const NamedShape& shape : task.shapes) {
    Strings dims;
    for (const auto& [name, value] : shape.dims) dims.push_back(fmt::format("{}={}", name, value));
    parts.push_back(joined(dims, ", "));
  }
  return joined(parts, "; ");
}

std::string accuracy_text(const TaskSpec& task) {
  Strings parts;
  for (const OutputDecl& output : task.outputs) {
    if (output.compare == CompareKind::kExact) parts.push_back(output.name + " exactly");
    if (output.compare == CompareKind::kArgmax) parts.push_back(output.name + " by the value at its index");
    if (output.compare == CompareKind::kArgsort)
      parts.push_back(output.name + " by the order of the values at its indices");
    if (output.compare == CompareKind::kBound)
      parts.push_back(fmt::format("{} within {:.2g}x the rounding errors of {} arithmetic", output.name,
                                  task.tolerance, info(output.dtype).name));
  }
  return joined(parts, "; ");
}

std::string device_text(const DeviceInfo& device, const DevicePeaks& peaks, const TaskSpec& task) {
  Strings parts = {quoted_line(device.name)};
  if (device.dialect == Dialect::kCpu) parts.push_back(fmt::format("{} thread(s)", device.threads));
  const double flops = peaks.flops_limit(task);
  if (flops > 0) parts.push_back(fmt::format("{:.3g} GFLOP/s", flops * 1e-9));
  for (const auto& level : peaks.levels)
    parts.push_back(fmt::format("{} {:.3g} MB at {:.3g} GB/s", level.name, level.capacity_bytes * 1e-6,
                                level.bytes_per_second * 1e-9));
  for (const char* fact : {"sm_count", "smem_optin", "vector_bytes"})
    if (const auto found = device.facts.find(fact); found != device.facts.end())
      parts.push_back(fmt::format("{} = {}", fact, found->second));
  return joined(parts, ", ");
}

/// Work items: the outputs' leading extents, which hardly any kernel combines.
std::string items_text(const TaskSpec& task) {
  const std::vector<Expr>& shape = task.outputs.front().shape;
  if (shape.size() < 2) return shape.empty() ? "1" : fmt::format("cdiv({}, 4096)", shape[0].to_string());
  return shape[0].to_string();
}

std::string skeleton(const TaskSpec& task, Dialect dialect) {
  Strings args, parameters;
  const auto add = [&](const std::string& name, DType dtype, bool is_const, bool scalar) {
    args.push_back(fmt::format("\"{}\"", name));
    parameters.push_back(fmt::format("{}{}{}{}", is_const && !scalar ? "const " : "", info(dtype).c_name,
                                     scalar ? " " : "* ", name));
  };
  for (const TensorDecl& tensor : task.tensors)
    add(tensor.name, tensor.dtype, tensor.role != Role::kInOut, tensor.role == Role::kScalar);
  for (const OutputDecl& output : task.outputs)
    if (!task.find_tensor(output.name)) add(output.name, output.dtype, false, false);
  for (const std::string& dim : task.dim_names) {
    args.push_back(fmt::format("\"{}\"", dim));
    parameters.push_back("int64_t " + dim);
  }
  const bool cuda = dialect == Dialect::kCuda;
  std::string sizes = fmt::format("items = \"{}\"", items_text(task));
  if (cuda) sizes = fmt::format("grid = [\"{}\"]\nblock = [256]", items_text(task));
  if (!cuda) parameters.insert(parameters.end(), {"int64_t begin", "int64_t end"});
  return fenced(fmt::format("/*lathe\n[[launch]]\nkernel = \"{0}\"\n{1}\nargs = [{2}]\n*/\n#include "
                            "<lathe/{3}>\n\nextern \"C\" {4}void {0}({5}) {{\n",
                            task.name, sizes, joined(args, ", "), cuda ? "cuda.cuh" : "cpu.h",
                            cuda ? "__global__ " : "", joined(parameters, ", ")),
                "cpp");
}

}  // namespace

Holes task_holes(const TaskSpec& task, const DeviceInfo& device, const DevicePeaks& peaks) {
  return {{"name", task.name},
          {"description", quoted_line(task.description, 2000)},
          {"graph", graph_text(task)},
          {"dims", dims_text(task)},
          {"inputs", inputs_text(task)},
          {"outputs", outputs_text(task)},
          {"shapes", shapes_text(task)},
          {"accuracy", accuracy_text(task)},
          {"device", device_text(device, peaks, task)},
          {"skeleton", skeleton(task, device.dialect)}};
}

}  // namespace lathe
