#include "policy/catalog/primitive.h"

#include <algorithm>
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

}  // namespace

Result<Graph> lower(const TaskSpec& task) {
  if (task.reference != ReferenceKind::kGraph)
    return Error{ErrorCode::kUnavailable, "the catalogue needs a task whose reference is a graph"};
  Graph graph{&task, {}, {}};
  for (const TensorDecl& tensor : task.tensors) {
    if (!is_supported(tensor.dtype, false))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue has no kernels for " + std::string(info(tensor.dtype).name)};
    graph.types[tensor.name] = {tensor.dtype, tensor.shape};
  }
  for (const NodeDecl& node : task.nodes) {
    const bool index = node.op_name == "argmax" || node.op_name == "argmin";
    if (!is_supported(node.type.dtype, !index))
      return Error{ErrorCode::kUnavailable,
                   "the catalogue does not compute " + std::string(info(node.type.dtype).name)};
    Lowering to(graph, node);
    const bool done = lower_elementwise(to) || lower_reduction(to) || lower_normalisation(to) ||
                      lower_loss(to) || lower_contraction(to) || lower_stencil(to) || lower_move(to);
    if (!done) return Error{ErrorCode::kUnavailable, "the catalogue does not know op " + node.op_name};
    graph.types[node.out] = node.type;
  }
  return graph;
}

}  // namespace lathe::catalog
