#include "policy/catalog/primitive.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "policy/catalog/lowering.h"

namespace lathe::catalog {

bool is_one(const Expr& extent) { return extent.is_constant() && extent.to_string() == "1"; }
bool equal(const Expr& a, const Expr& b) { return a.to_string() == b.to_string(); }

Expr product(std::span<const Expr> extents) {
  Expr result = Expr::constant(1);
  for (const Expr& extent : extents) result = result * extent;
  return result;
}

std::string factor(const Expr& expr) {
  const std::string text = expr.to_string();
  const bool atom =
      std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return atom ? text : "(" + text + ")";
}

bool Graph::is_output(const std::string& value) const {
  return std::ranges::any_of(task->outputs, [&](const OutputDecl& output) { return output.name == value; });
}

std::vector<int> Graph::consumers(const std::string& value) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::ranges::find(nodes[i].in, value) != nodes[i].in.end()) found.push_back(static_cast<int>(i));
  return found;
}

namespace {

bool is_supported(DType dtype, bool computed) {
  if (dtype == DType::kF32 || dtype == DType::kBool) return true;
  return (dtype == DType::kI32 || dtype == DType::kI64) && !computed;
}

/// Names that the skeletons' code declares.
bool is_local(const std::string& name) {
  static constexpr std::array<std::string_view, 52> kLocals = {
      "a",     "acc",  "at",    "b",      "begin", "blocks", "body", "c",     "carry", "channel", "counted",
      "depth", "end",  "first", "from",   "group", "h",      "i",    "ih",    "image", "in",      "item",
      "iw",    "j",    "j0",    "k",      "k0",    "kh",     "kw",   "lanes", "n",     "oc",      "oh",
      "outer", "p",    "p0",    "packed", "ph",    "plane",  "pw",   "r",     "row",   "rows",    "run",
      "s",     "stop", "t",     "tail",   "tap",   "tile",   "to",   "u"};
  static constexpr std::array<std::string_view, 14> kMore = {"v",     "w",     "weight", "weights", "x",
                                                             "x_",    "whole", "min",    "max",     "cdiv",
                                                             "align", "load",  "store",  "exp"};
  static constexpr std::array<std::string_view, 20> kForGpus = {
      "across", "block", "i0",   "items", "lane",  "split", "splits", "own",   "shares", "number",
      "deep",   "chunk", "last", "walk",  "kKept", "sum",   "taps",   "tiles", "warp",   "Block"};
  const bool numbered = name.size() > 1 && (name[0] == 't' || name.starts_with("ix")) &&
                        std::isdigit(static_cast<unsigned char>(name.back())) != 0;
  const auto among = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  return numbered || among(kLocals) || among(kMore) || among(kForGpus);
}

Expr renamed(const Expr& expr, const std::map<std::string, std::string>& names, bool back) {
  std::map<std::string, Expr> replacements;
  for (const auto& [code, task] : names)
    if (code != task) replacements.emplace(back ? code : task, Expr::symbol(back ? task : code));
  return replacements.empty() ? expr : expr.substitute(replacements);
}

}  // namespace

Expr to_code(const Graph& graph, const Expr& expr) { return renamed(expr, graph.dims, false); }
Expr to_task(const Graph& graph, const Expr& expr) { return renamed(expr, graph.dims, true); }

Result<Graph> lower(const TaskSpec& task) {
  if (task.reference != ReferenceKind::kGraph)
    return Error{ErrorCode::kUnavailable, "the catalogue needs a task whose reference is a graph"};
  Graph graph{.task = &task, .nodes = {}, .types = {}, .iotas = {}, .dims = {}};
  for (const std::string& dim : task.dim_names) graph.dims[is_local(dim) ? dim + "_" : dim] = dim;
  for (const TensorDecl& tensor : task.tensors) {
    if (!is_supported(tensor.dtype, false))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue has no kernels for " + std::string(info(tensor.dtype).name)};
    graph.types[tensor.name] = {tensor.dtype, tensor.shape};
    for (Expr& extent : graph.types[tensor.name].shape) extent = to_code(graph, extent);
  }
  for (const NodeDecl& declared : task.nodes) {
    NodeDecl node = declared;
    for (Expr& extent : node.type.shape) extent = to_code(graph, extent);
    const bool index = node.op_name == "argmax" || node.op_name == "argmin";
    if (!is_supported(node.type.dtype, !index))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue does not compute " + std::string(info(node.type.dtype).name)};
    Lowering to(graph, node);
    const bool done = lower_elementwise(to) || lower_reduction(to) || lower_normalisation(to) ||
                      lower_loss(to) || lower_contraction(to) || lower_stencil(to) || lower_move(to) ||
                      lower_attention(to);
    if (!done) return Error{ErrorCode::kUnavailable, "the catalogue does not know op " + node.op_name};
    graph.types[node.out] = node.type;
  }
  return graph;
}

}  // namespace lathe::catalog
