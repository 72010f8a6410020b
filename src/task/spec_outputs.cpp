#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "task/names.h"
#include "task/ranking.h"
#include "task/spec_parse.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxOutputs = 64;

bool is_arg_reduction(const NodeDecl& node) { return node.op_name == "argmax" || node.op_name == "argmin"; }

CompareKind natural_compare(const TaskSpec& spec, const NodeDecl* node, DType dtype) {
  if (node != nullptr && is_arg_reduction(*node)) return CompareKind::kArgmax;
  if (node != nullptr && ranking_of(spec, *node)) return CompareKind::kArgsort;
  return info(dtype).is_float ? CompareKind::kBound : CompareKind::kExact;
}

OutputDecl output_of(const TaskSpec& spec, const NodeDecl& node) {
  return {node.out, node.type.dtype, natural_compare(spec, &node, node.type.dtype), node.type.shape,
          node.where};
}

Status read_compare(const TomlTable& table, const TaskSpec& spec, const NodeDecl* node, OutputDecl& out) {
  if (!table.has("compare")) {
    out.compare = natural_compare(spec, node, out.dtype);
    return Ok{};
  }
  LATHE_TRY(const std::string name, table.choice("compare", {"bound", "exact", "argmax", "argsort"}));
  if (name == "bound") out.compare = CompareKind::kBound;
  if (name == "exact") {
    if (info(out.dtype).is_float)
      return invalid(fmt::format("'{}' is {}, whose roundings depend on the order of sums", out.name,
                                 info(out.dtype).name),
                     "compare = \"bound\"", table.where("compare"));
    out.compare = CompareKind::kExact;
  }
  if (name == "argmax") {
    if (node == nullptr || !is_arg_reduction(*node)) {
      return invalid("compare = \"argmax\" is for the result of argmax or argmin", {},
                     table.where("compare"));
    }
    out.compare = CompareKind::kArgmax;
  }
  if (name == "argsort") {
    if (node == nullptr || !ranking_of(spec, *node)) {
      return invalid("compare = \"argsort\" is for the result of argsort, or a slice of it along its axis",
                     {}, table.where("compare"));
    }
    out.compare = CompareKind::kArgsort;
  }
  return Ok{};
}

Result<OutputDecl> read_output(const TomlTable& table, const TaskSpec& spec) {
  const bool graph = spec.reference == ReferenceKind::kGraph;
  std::vector<std::string> keys = {"name", "compare", "dtype"};
  if (!graph) keys.emplace_back("shape");
  LATHE_CHECK_OK(table.allow_only(keys, "[[output]]"));
  OutputDecl out;
  out.where = table.where();
  LATHE_TRY(out.name, table.required_text("name"));
  const NodeDecl* node = spec.find_node(out.name);
  if (graph && node == nullptr) {
    std::vector<std::string> names;
    for (const NodeDecl& known : spec.nodes) names.push_back(known.out);
    return invalid(fmt::format("no node computes '{}'", out.name), did_you_mean(out.name, names),
                   table.where("name"));
  }
  if (!graph) {
    if (!is_usable_name(out.name) || spec.find_tensor(out.name) != nullptr) {
      return invalid(fmt::format("'{}' cannot name an output", out.name), {}, table.where("name"));
    }
    LATHE_TRY(out.shape, table.exprs("shape", kMaxRank));
    if (!table.has("shape")) {
      return invalid(fmt::format("output '{}' needs a shape", out.name), "only a graph tells them",
                     out.where);
    }
  } else {
    out.shape = node->type.shape;
  }
  LATHE_TRY(out.dtype, table.dtype("dtype", graph ? node->type.dtype : DType::kF32));
  if (graph && out.dtype != node->type.dtype)
    return invalid(fmt::format("'{}' is computed in {}, not in {}", out.name, info(node->type.dtype).name,
                               info(out.dtype).name),
                   fmt::format("cast it: a node 'NAME = cast({}, dtype = \"{}\")' whose result is the output",
                               out.name, info(out.dtype).name),
                   table.where("dtype"));
  LATHE_CHECK_OK(read_compare(table, spec, node, out));
  return out;
}

bool is_output(const TaskSpec& spec, const std::string& name) {
  return std::ranges::any_of(spec.outputs, [&](const OutputDecl& out) { return out.name == name; });
}

/// Whether a node from index `from` on reads the value.
bool read_from(const TaskSpec& spec, const std::string& name, std::size_t from) {
  return std::any_of(spec.nodes.begin() + static_cast<std::ptrdiff_t>(from), spec.nodes.end(),
                     [&](const NodeDecl& node) { return std::ranges::find(node.in, name) != node.in.end(); });
}

Status refuse_unused(const TaskSpec& spec) {
  for (const TensorDecl& tensor : spec.tensors) {
    if (!read_from(spec, tensor.name, 0)) {
      return invalid(fmt::format("tensor '{}' is never used", tensor.name), "use it in a node or drop it",
                     tensor.where);
    }
    if (tensor.role == Role::kInOut && !is_output(spec, tensor.name)) {
      return invalid(fmt::format("inout tensor '{}' is not an output", tensor.name),
                     "let a node write it and list it under [[output]]", tensor.where);
    }
  }
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeDecl& node = spec.nodes[i];
    if (is_output(spec, node.out) || read_from(spec, node.out, i + 1)) continue;
    return invalid(fmt::format("the result '{}' is never used", node.out),
                   "use it in a later node, list it under [[output]], or drop it", node.where);
  }
  return Ok{};
}

/// What a table could answer is no task.
Status refuse_constants(const TaskSpec& spec) {
  std::set<std::string_view> varying;
  for (const TensorDecl& tensor : spec.tensors) varying.insert(tensor.name);
  for (const NodeDecl& node : spec.nodes)
    if (std::ranges::any_of(node.in, [&](const std::string& name) { return varying.contains(name); }))
      varying.insert(node.out);
  for (const OutputDecl& output : spec.outputs)
    if (!varying.contains(output.name))
      return invalid(fmt::format("the output '{}' depends on no input", output.name),
                     "let it be computed from a tensor, or drop it", output.where);
  return Ok{};
}

}  // namespace

Status resolve_outputs(const TomlTable& task, TaskSpec& spec) {
  LATHE_TRY(const std::vector<TomlTable> tables, task.tables("output", kMaxOutputs));
  for (const TomlTable& table : tables) {
    LATHE_TRY(OutputDecl out, read_output(table, spec));
    if (is_output(spec, out.name)) {
      return invalid(fmt::format("output '{}' is listed twice", out.name), {}, out.where);
    }
    spec.outputs.push_back(std::move(out));
  }
  if (spec.outputs.empty() && spec.reference == ReferenceKind::kProcess) {
    if (!spec.tensors.empty() || !spec.dim_names.empty())
      return invalid("a task with tensors or dims needs an [[output]]",
                     "a process task without all three has those of its module", task.where());
    spec.fixed = true;
    return Ok{};
  }
  if (spec.outputs.empty()) {
    if (spec.nodes.empty()) {
      return invalid("a task needs a node or an output", "write graph = \"\"\"...\"\"\" or [[node]] tables",
                     task.where());
    }
    spec.outputs.push_back(output_of(spec, spec.nodes.back()));
  }
  if (spec.reference != ReferenceKind::kGraph) return Ok{};
  LATHE_CHECK_OK(refuse_unused(spec));
  return refuse_constants(spec);
}

}  // namespace lathe
