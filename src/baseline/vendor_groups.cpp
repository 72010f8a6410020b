#include "baseline/vendor_groups.h"

#include <algorithm>
#include <array>
#include <set>

namespace lathe {
namespace {

constexpr std::array<std::string_view, 2> kLibraries = {"openblas", "onednn"};

using Names = std::set<std::string_view>;

bool is_one(const Expr& extent) { return extent.is_constant() && extent.to_string() == "1"; }

/// A task's graph as a library's matcher sees it.
class Graph {
 public:
  explicit Graph(const TaskSpec& task) : task_(task) {}

  SymbolicType type_of(const std::string& value) const {
    if (const TensorDecl* tensor = task_.find_tensor(value)) return {tensor->dtype, tensor->shape};
    return task_.find_node(value)->type;
  }
  bool is_scalar(const std::string& value) const {
    const TensorDecl* tensor = task_.find_tensor(value);
    return tensor != nullptr && tensor->role == Role::kScalar;
  }
  bool all_fp32(const NodeDecl& node) const {
    return node.type.dtype == DType::kF32 &&
           std::all_of(node.in.begin(), node.in.end(), [&](const auto& name) {
             return type_of(name).dtype == DType::kF32 && !is_scalar(name);
           });
  }
  /// The only node that reads `value`, if that is all that becomes of it.
  const NodeDecl* sole_reader(const std::string& value) const {
    for (const OutputDecl& output : task_.outputs)
      if (output.name == value) return nullptr;
    const NodeDecl* reader = nullptr;
    for (const NodeDecl& node : task_.nodes) {
      const auto reads = std::count(node.in.begin(), node.in.end(), value);
      if (reads > 1 || (reads == 1 && reader)) return nullptr;
      if (reads == 1) reader = &node;
    }
    return reader;
  }
  const TaskSpec& task() const { return task_; }

 private:
  const TaskSpec& task_;
};

/// The operand of a two-operand node that is not `value`.
const std::string& other_operand(const NodeDecl& node, const std::string& value) {
  return node.in[node.in[0] == value ? 1 : 0];
}

/// Whether `node` adds one value a column to `value`.
bool adds_row_bias(const Graph& graph, const NodeDecl& node, const std::string& value) {
  if (node.op_name != "add" && node.op_name != "bias_add") return false;
  const std::vector<Expr> bias = graph.type_of(other_operand(node, value)).shape;
  const auto rank = static_cast<std::int64_t>(node.type.shape.size());
  const std::int64_t axis = node.attrs.integer("axis", -1);
  return bias.size() == 1 && !is_one(bias[0]) && (axis == -1 || axis == rank - 1);
}

/// What a library can start a call with, and what it can append to one that has computed `value` so far.
struct Library {
  bool (*starts)(const Graph&, const NodeDecl&);
  bool (*appends)(const Graph&, const NodeDecl& head, const NodeDecl& node, const std::string& value,
                  int length);
};

bool is_matrix_product(const Graph& graph, const NodeDecl& node) {
  if (node.op_name == "linear") return true;
  if (node.op_name != "matmul") return false;
  // Batches must be the same for both operands, or absent from one.
  const std::vector<Expr> a = graph.type_of(node.in[0]).shape;
  const std::vector<Expr> b = graph.type_of(node.in[1]).shape;
  if (a.size() == 2 || b.size() == 2) return true;
  if (a.size() != b.size()) return false;
  for (std::size_t axis = 0; axis + 2 < a.size(); ++axis)
    if (is_one(a[axis]) != is_one(b[axis])) return false;
  return true;
}

bool openblas_starts(const Graph& graph, const NodeDecl& node) { return is_matrix_product(graph, node); }

bool openblas_appends(const Graph& graph, const NodeDecl& head, const NodeDecl& node,
                      const std::string& value, int length) {
  const bool has_bias = head.op_name == "linear" && head.in.size() > 2;
  return length == 1 && !has_bias && adds_row_bias(graph, node, value);
}

const Names kEltwise = {"relu", "leaky_relu", "sigmoid", "tanh", "gelu", "silu",   "elu", "softplus",
                        "mish", "hardswish",  "exp",     "log",  "sqrt", "square", "abs", "neg"};

/// Post-operations take a tensor of the result's shape, or one value a column.
bool onednn_combines(const Graph& graph, const NodeDecl& node, const std::string& value) {
  static const Names commutative = {"add", "mul", "max", "min", "bias_add"};
  static const Names ordered = {"sub", "div"};
  const bool usable =
      commutative.contains(node.op_name) || (ordered.contains(node.op_name) && node.in[0] == value);
  if (!usable) return false;
  const std::vector<Expr> shape = graph.type_of(other_operand(node, value)).shape;
  const std::vector<Expr> own = graph.type_of(value).shape;
  if (shape.size() == 1 && own.size() > 1)
    return !is_one(shape[0]) && !(node.op_name == "bias_add" && !adds_row_bias(graph, node, value));
  if (shape.size() != own.size() || own.size() != node.type.shape.size()) return false;
  for (std::size_t axis = 0; axis < own.size(); ++axis)
    if (is_one(shape[axis]) != is_one(own[axis])) return false;
  return true;
}

bool onednn_starts(const Graph& graph, const NodeDecl& node) { return is_matrix_product(graph, node); }

bool onednn_appends(const Graph& graph, const NodeDecl&, const NodeDecl& node, const std::string& value,
                    int length) {
  constexpr int kMostPostOps = 31;
  return length <= kMostPostOps && (kEltwise.contains(node.op_name) || onednn_combines(graph, node, value));
}

Library find_library(std::string_view name) {
  if (name == "openblas") return {openblas_starts, openblas_appends};
  assert(name == "onednn");
  return {onednn_starts, onednn_appends};
}

}  // namespace

std::span<const std::string_view> vendor_libraries() { return kLibraries; }

std::vector<VendorGroup> vendor_groups(const TaskSpec& task, std::string_view library) {
  const Graph graph(task);
  const Library able = find_library(library);
  std::vector<VendorGroup> groups;
  std::set<std::string> taken;
  for (const NodeDecl& head : task.nodes) {
    if (taken.contains(head.out) || !graph.all_fp32(head) || !able.starts(graph, head)) continue;
    VendorGroup group{std::string(library), {head.out}};
    for (const NodeDecl* next = graph.sole_reader(head.out); next; next = graph.sole_reader(next->out)) {
      const auto length = static_cast<int>(group.nodes.size());
      const bool fits = !taken.contains(next->out) && graph.all_fp32(*next) &&
                        able.appends(graph, head, *next, group.nodes.back(), length);
      if (!fits) break;
      group.nodes.push_back(next->out);
    }
    taken.insert(group.nodes.begin(), group.nodes.end());
    groups.push_back(std::move(group));
  }
  const auto place = [&](const VendorGroup& group) { return task.find_node(group.nodes.back()); };
  std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return groups;
}

}  // namespace lathe
