#include "baseline/vendor_groups.h"

#include <algorithm>
#include <array>
#include <set>

namespace lathe {
namespace {

constexpr std::array<std::string_view, 2> kLibraries = {"openblas", "onednn"};
constexpr std::array<std::string_view, 2> kGpuLibraries = {"cublas", "cudnn"};

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
  /// Whether all operands have one dtype, which `takes` allows with the result's, and no input is
  /// overwritten.
  bool is_plain(const NodeDecl& node, bool (*takes)(DType in, DType out)) const {
    return task_.find_tensor(node.out) == nullptr && !node.in.empty() &&
           std::ranges::all_of(node.in, [&](const std::string& name) {
             const DType dtype = type_of(name).dtype;
             return dtype == type_of(node.in[0]).dtype && takes(dtype, node.type.dtype) && !is_scalar(name);
           });
  }
  /// The only node that reads `value`, if it is read once and is no output.
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

/// Whether `node` adds a bias along the last axis to `value`.
bool adds_row_bias(const Graph& graph, const NodeDecl& node, const std::string& value) {
  if (node.op_name != "add" && node.op_name != "bias_add") return false;
  const std::vector<Expr> bias = graph.type_of(other_operand(node, value)).shape;
  const auto rank = static_cast<std::int64_t>(node.type.shape.size());
  const std::int64_t axis = node.attrs.integer("axis", -1);
  return bias.size() == 1 && !is_one(bias[0]) && (axis == -1 || axis == rank - 1);
}

/// The dtypes that a library computes, what its calls can start with, and what can be fused to a
/// call that has computed `value`.
struct Library {
  bool (*takes)(DType in, DType out);
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

bool takes_fp32(DType in, DType out) { return in == DType::kF32 && out == DType::kF32; }

bool openblas_starts(const Graph& graph, const NodeDecl& node) { return is_matrix_product(graph, node); }

bool openblas_appends(const Graph& graph, const NodeDecl& head, const NodeDecl& node,
                      const std::string& value, int length) {
  const bool has_bias = head.op_name == "linear" && head.in.size() > 2;
  return length == 1 && !has_bias && adds_row_bias(graph, node, value);
}

bool cublas_takes(DType in, DType out) {
  const bool narrow = in == DType::kF16 || in == DType::kBF16;
  if (in != out) return narrow && out == DType::kF32;
  return narrow || in == DType::kF32 || in == DType::kF64;
}
bool cublas_starts(const Graph& graph, const NodeDecl& node) {
  return is_matrix_product(graph, node) && node.in.size() == 2;
}
bool cublas_appends(const Graph&, const NodeDecl&, const NodeDecl&, const std::string&, int) { return false; }

/// Not log and log_softmax: in oneDNN 2.6 the error of log near 3 is 50 units of roundoff, more
/// than the fp32 bound.
const Names kEltwise = {"relu",     "leaky_relu", "sigmoid",   "tanh",  "gelu",      "silu",   "elu",
                        "softplus", "mish",       "hardswish", "exp",   "sqrt",      "square", "abs",
                        "neg",      "clamp",      "hardtanh",  "scale", "add_scalar"};
bool is_eltwise(const NodeDecl& node) {
  return kEltwise.contains(node.op_name) && node.in.size() == 1;  // clamp may have bounds that are tensors
}
const Names kCommutative = {"add", "mul", "max", "min", "bias_add"};
const Names kOrdered = {"sub", "div"};

/// An operand's extents expanded to the rank of the node's result, with ones in front, or around a
/// bias along an axis.
std::vector<Expr> aligned_shape(const NodeDecl& node, const std::vector<Expr>& shape) {
  const std::size_t rank = node.type.shape.size();
  std::vector<Expr> aligned(rank, Expr::constant(1));
  if (node.op_name == "bias_add" && shape.size() == 1) {
    const std::int64_t axis = node.attrs.integer("axis", -1);
    aligned[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] = shape[0];
  } else {
    std::copy_backward(shape.begin(), shape.end(), aligned.end());
  }
  return aligned;
}

/// Whether extents that broadcast to `out` are equal to it.
bool covers(const std::vector<Expr>& aligned, const std::vector<Expr>& out) {
  return std::equal(aligned.begin(), aligned.end(), out.begin(),
                    [](const Expr& a, const Expr& b) { return is_one(a) == is_one(b); });
}

bool is_channel(const std::vector<Expr>& aligned, std::size_t axis) {
  for (std::size_t i = 0; i < aligned.size(); ++i)
    if (i != axis && !is_one(aligned[i])) return false;
  return true;
}

/// Post-operations take a tensor of the result's shape (`whole`), or one value for each index of an
/// axis.
bool onednn_combines(const Graph& graph, const NodeDecl& node, const std::string& value, std::size_t axis,
                     bool whole) {
  const bool usable =
      kCommutative.contains(node.op_name) || (kOrdered.contains(node.op_name) && node.in[0] == value);
  if (!usable || graph.type_of(value).shape.size() != node.type.shape.size()) return false;
  if (!covers(graph.type_of(value).shape, node.type.shape)) return false;
  const std::vector<Expr> other = aligned_shape(node, graph.type_of(other_operand(node, value)).shape);
  return is_channel(other, axis) || (whole && covers(other, node.type.shape));
}

bool starts_with(const NodeDecl& node, std::string_view prefix) {
  return std::string_view(node.op_name).starts_with(prefix);
}
bool is_convolution(const NodeDecl& node) {
  return starts_with(node, "conv1d") || starts_with(node, "conv2d") || starts_with(node, "conv3d");
}
/// cuDNN has no dilated ones, and oneDNN only reference code. Neither rounds positions up.
bool is_pool(const NodeDecl& node) {
  if (node.attrs.flag("ceil_mode", false)) return false;
  const auto dilation = node.attrs.integers("dilation", {1});
  return (starts_with(node, "max_pool") || starts_with(node, "avg_pool")) &&
         std::ranges::all_of(dilation, [](std::int64_t step) { return step == 1; });
}
bool is_deconvolution(const NodeDecl& node) { return starts_with(node, "conv_transpose"); }

/// Libraries derive output_padding from the extents; it must be less than the stride.
bool has_small_output_padding(const NodeDecl& node) {
  const auto added = node.attrs.integers("output_padding", {0});
  const auto stride = node.attrs.integers("stride", {1});
  return *std::max_element(added.begin(), added.end()) < *std::min_element(stride.begin(), stride.end());
}

/// oneDNN's softmax of a fully masked row is not zero, so every query must see a key. The adapter
/// has a head of keys for each head of queries, and sequences of one length.
bool is_attention(const Graph& graph, const NodeDecl& node) {
  if (node.op_name != "attention" || node.in.size() > 3) return false;
  const std::vector<Expr> q = graph.type_of(node.in[0]).shape;
  const std::vector<Expr> k = graph.type_of(node.in[1]).shape;
  const std::size_t length = q.size() - 2;
  if (length > 0 && q[length - 1].to_string() != k[length - 1].to_string()) return false;
  return !node.attrs.flag("causal", false) || q[length].to_string() == k[length].to_string();
}

/// For reductions over leading axes oneDNN has only reference code, a hundred times slower than a
/// plain loop.
bool is_trailing_reduction(const Graph& graph, const NodeDecl& node) {
  static const Names reductions = {"sum", "mean", "reduce_max", "reduce_min"};
  if (!reductions.contains(node.op_name)) return false;
  const auto rank = static_cast<std::int64_t>(graph.type_of(node.in[0]).shape.size());
  if (!node.attrs.has("axis") && !node.attrs.has("axes")) return true;
  std::set<std::int64_t> axes;
  for (std::int64_t axis : node.attrs.integers(node.attrs.has("axis") ? "axis" : "axes", {}))
    axes.insert(axis < 0 ? axis + rank : axis);
  return *axes.begin() == rank - static_cast<std::int64_t>(axes.size());
}

bool starts_binary(const Graph& graph, const NodeDecl& node) {
  const auto whole = [&](std::size_t i) {
    return covers(aligned_shape(node, graph.type_of(node.in[i]).shape), node.type.shape);
  };
  return (kCommutative.contains(node.op_name) && (whole(0) || whole(1))) ||
         (kOrdered.contains(node.op_name) && whole(0));
}

bool onednn_takes(DType in, DType out) { return in == out && (in == DType::kF32 || in == DType::kBF16); }

/// Whether a node tells which elements of a value are larger.
bool decides_order(const Graph& graph, const std::string& value) {
  return std::ranges::any_of(graph.task().nodes, [&](const NodeDecl& node) {
    return (node.op_name == "argsort" || node.op_name == "argmax") && node.in[0] == value;
  });
}

/// Of bf16, not what has parameters in fp32, keeps scores in bf16 or flushes denormals (a maximum).
/// Its softmax is off by more than one rounding, which an order of its results shows.
bool onednn_starts(const Graph& graph, const NodeDecl& node) {
  if (node.op_name == "softmax" && node.type.dtype == DType::kBF16 && decides_order(graph, node.out))
    return false;
  static const Names of_fp32 = {"attention", "layer_norm", "batch_norm"};
  const bool is_maximum = starts_with(node, "max_pool");
  if (node.type.dtype == DType::kBF16 && (of_fp32.contains(node.op_name) || is_maximum)) return false;
  static const Names alone = {"softmax", "layer_norm", "batch_norm", "transpose", "concat"};
  return is_matrix_product(graph, node) || is_convolution(node) ||
         (is_deconvolution(node) && has_small_output_padding(node)) || is_attention(graph, node) ||
         is_pool(node) || alone.contains(node.op_name) || is_trailing_reduction(graph, node) ||
         is_eltwise(node) || starts_binary(graph, node);
}

/// Nothing is fused to an eltwise primitive: with a binary post-op oneDNN 2.6 runs reference code.
bool onednn_appends(const Graph& graph, const NodeDecl& head, const NodeDecl& node, const std::string& value,
                    int length) {
  constexpr int kMostPostOps = 31;
  if (length > kMostPostOps) return false;
  const std::size_t last = head.type.shape.size() - 1;
  if (is_matrix_product(graph, head) || kCommutative.contains(head.op_name) ||
      kOrdered.contains(head.op_name))
    return is_eltwise(node) || onednn_combines(graph, node, value, last, true);
  if (is_convolution(head) || is_deconvolution(head))
    return is_eltwise(node) || onednn_combines(graph, node, value, 1, false);
  return head.op_name == "batch_norm" && node.op_name == "relu" && length == 1;
}

/// The oneDNN algorithm of an op that has parameters.
std::string_view parameterised_algorithm(const NodeDecl& node) {
  static const Names linear = {"scale", "add_scalar", "neg"}, rectified = {"relu", "leaky_relu"},
                     clipped = {"clamp", "hardtanh"};
  if (linear.contains(node.op_name)) return "linear";
  if (rectified.contains(node.op_name)) return "relu";
  if (clipped.contains(node.op_name)) return "clip";
  return node.op_name == "elu" ? "elu" : "";
}

/// oneDNN 2.6 keeps one set of parameters for each algorithm of a call's post-operations, that of
/// the first.
bool needs_other_parameters(const TaskSpec& task, const VendorGroup& group, const NodeDecl& node) {
  const std::string_view algorithm = parameterised_algorithm(node);
  return std::any_of(group.nodes.begin() + 1, group.nodes.end(), [&](const std::string& name) {
    const NodeDecl& earlier = *task.find_node(name);
    const bool same = earlier.op_name == node.op_name && earlier.attrs.all() == node.attrs.all();
    return !algorithm.empty() && parameterised_algorithm(earlier) == algorithm && !same;
  });
}

bool cudnn_starts(const Graph&, const NodeDecl& node) {
  static const Names alone = {"softmax", "log_softmax", "batch_norm"};
  return is_convolution(node) || (is_deconvolution(node) && has_small_output_padding(node)) ||
         is_pool(node) || alone.contains(node.op_name);
}

/// Fuses a bias over the channels, then relu, to a convolution.
bool cudnn_appends(const Graph&, const NodeDecl& head, const NodeDecl& node, const std::string& value,
                   int length) {
  if (!is_convolution(head)) return false;
  const bool own_bias = head.in.size() > 2;
  if (node.op_name == "relu") return length == (own_bias ? 1 : 2);
  const auto rank = static_cast<std::int64_t>(head.type.shape.size());
  const std::int64_t axis = node.attrs.integer("axis", -1);
  return node.op_name == "bias_add" && length == 1 && !own_bias && node.in[0] == value &&
         (axis < 0 ? axis + rank : axis) == 1;
}

Library find_library(std::string_view name) {
  if (name == "openblas") return {takes_fp32, openblas_starts, openblas_appends};
  if (name == "cublas") return {cublas_takes, cublas_starts, cublas_appends};
  if (name == "cudnn") return {takes_fp32, cudnn_starts, cudnn_appends};
  assert(name == "onednn");
  return {onednn_takes, onednn_starts, onednn_appends};
}

}  // namespace

std::span<const std::string_view> vendor_libraries(Dialect dialect) {
  if (dialect == Dialect::kCuda) return kGpuLibraries;
  return kLibraries;
}

namespace {

/// Whether what the group reads is still there when `last` is due, which is when its call runs.
bool reads_in_time(const TaskSpec& task, const VendorGroup& group, const NodeDecl& last) {
  std::set<std::string> read;
  for (const NodeDecl& node : task.nodes) {
    if (&node == &last) return true;
    if (read.contains(node.out)) return false;
    if (std::ranges::find(group.nodes, node.out) != group.nodes.end())
      read.insert(node.in.begin(), node.in.end());
  }
  return true;
}

}  // namespace

std::vector<VendorGroup> vendor_groups(const TaskSpec& task, std::string_view library) {
  const Graph graph(task);
  const Library able = find_library(library);
  std::vector<VendorGroup> groups;
  std::set<std::string> taken;
  for (const NodeDecl& head : task.nodes) {
    if (taken.contains(head.out) || !graph.is_plain(head, able.takes) || !able.starts(graph, head)) continue;
    VendorGroup group{std::string(library), {head.out}};
    for (const NodeDecl* next = graph.sole_reader(head.out); next; next = graph.sole_reader(next->out)) {
      const auto length = static_cast<int>(group.nodes.size());
      const bool fits = !taken.contains(next->out) && graph.is_plain(*next, able.takes) &&
                        able.appends(graph, head, *next, group.nodes.back(), length) &&
                        reads_in_time(task, group, *next) &&
                        !(library == "onednn" && needs_other_parameters(task, group, *next));
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
