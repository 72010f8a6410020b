#include "task/bound_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

namespace lathe {
namespace {

constexpr std::int64_t kMaxTensorElements = std::int64_t{1} << 31;

Result<Shape> bind_shape(const std::vector<Expr>& extents, const Dims& dims, const std::string& name,
                         const SourcePos& where) {
  Shape shape;
  std::int64_t count = 1;
  for (const Expr& extent : extents) {
    Result<std::int64_t> value = extent.evaluate(dims);
    if (!value.ok()) return invalid(fmt::format("'{}': {}", name, value.error().message), {}, where);
    if (*value < 1) {
      return invalid(fmt::format("'{}' has extent {} = {}", name, extent.to_string(), *value),
                     "every extent is at least 1", where);
    }
    if (__builtin_mul_overflow(count, *value, &count) || count > kMaxTensorElements) {
      return invalid(fmt::format("'{}' has more than 2^31 elements", name), "choose smaller dims", where);
    }
    shape.push_back(*value);
  }
  return shape;
}

Status check_domain(const TaskSpec& spec, const Dims& dims) {
  for (const std::string& dim : spec.dim_names) {
    if (!dims.contains(dim)) return invalid(fmt::format("dim '{}' has no value", dim));
  }
  if (!spec.where.has_value()) return Ok{};
  LATHE_TRY(const std::int64_t inside, spec.where->evaluate(dims));
  if (inside == 0) {
    return invalid(fmt::format("outside the task's domain: {}", spec.where->to_string()),
                   "change the dims or 'where'");
  }
  return Ok{};
}

/// Of fewer places than elements, some would occur twice.
Status check_places(const TensorDecl& tensor, const Shape& shape, const Dims& dims) {
  if (tensor.generator.order != Order::kDistinct) return Ok{};
  LATHE_TRY(const std::int64_t limit, tensor.generator.index_limit->evaluate(dims));
  if (element_count(shape) <= limit) return Ok{};
  return invalid(
      fmt::format("'{}' has {} distinct indices below {}", tensor.name, element_count(shape), limit),
      "say in 'where' that there are no more elements than the limit", tensor.where);
}

double bytes_of(const BoundTask& task, const std::string& name, DType dtype) {
  return static_cast<double>(element_count(task.shape_of(name))) * static_cast<double>(info(dtype).bytes);
}

/// Ops whose results may all be elements of an operand, hanging on their values: in place, a kernel
/// need not write what does not change.
constexpr std::array<std::string_view, 16> kChoosing = {
    "where", "clamp",      "relu", "leaky_relu", "prelu",  "elu",    "hardtanh",    "max",
    "min",   "hardshrink", "abs",  "sort",       "cummax", "cummin", "scatter_max", "scatter_min"};

/// Elements of its result that a node need not write, if it leaves `untouched` of them in any case.
std::int64_t unwritten(const BoundTask& task, std::size_t node, std::int64_t untouched) {
  const NodeDecl& decl = task.spec->nodes[node];
  const bool overwrites = std::ranges::count(decl.in, decl.out) > 0;
  return overwrites && std::ranges::count(kChoosing, decl.op_name) > 0
             ? element_count(task.shape_of(decl.out))
             : untouched;
}

/// Elements of an inout tensor that a node leaves where they are.
std::int64_t untouched(const BoundTask& task, std::size_t node) {
  const NodeDecl& decl = task.spec->nodes[node];
  const bool overwrites = !decl.in.empty() && decl.in[0] == decl.out;
  return overwrites ? decl.op->kept(task.site(node)) : 0;
}

/// Ops whose results are often zero: of half of the ordinary inputs, or nearly always.
constexpr std::array<std::string_view, 26> kZeroing = {
    "relu",  "hardshrink", "softshrink",  "hardsigmoid", "hardswish",    "round",    "floor",
    "trunc", "ceil",       "fmod",        "remainder",   "floor_divide", "mul_high", "bitwise_and",
    "eq",    "ne",         "lt",          "le",          "gt",           "ge",       "any",
    "all",   "bincount",   "logical_and", "logical_or",  "logical_not"};
/// Ops that give zero where their argument is far below others.
constexpr std::array<std::string_view, 4> kVanishing = {"softmax", "exp", "exp2", "sigmoid"};
/// Ops beside elementwise ones and moves whose results are zero where their operands are.
constexpr std::array<std::string_view, 12> kKeepingZeros = {
    "prod",     "cumprod", "reduce_max",   "reduce_min", "cummax",     "cummin",
    "rms_norm", "sort",    "l2_normalize", "max_pool1d", "max_pool2d", "max_pool3d"};
/// Ops that need not know what a zero of their other operand meets.
constexpr std::array<std::string_view, 20> kHiding = {"mul",
                                                      "div",
                                                      "pow",
                                                      "fmod",
                                                      "remainder",
                                                      "bitwise_and",
                                                      "floor_divide",
                                                      "wrapping_mul",
                                                      "mul_high",
                                                      "matmul",
                                                      "linear",
                                                      "outer",
                                                      "conv1d",
                                                      "conv2d",
                                                      "conv3d",
                                                      "conv_transpose1d",
                                                      "conv_transpose2d",
                                                      "conv_transpose3d",
                                                      "kl_div",
                                                      "grouped_matmul"};
/// Ops of which one value may decide, a factor that is zero or what is known to be an end of the
/// values' range: who sees it need not read the others.
constexpr std::array<std::string_view, 8> kDecided = {"prod",   "cumprod", "reduce_max", "reduce_min",
                                                      "argmax", "argmin",  "cummax",     "cummin"};
/// What is added to arguments of kVanishing so that nothing is left of them.
constexpr double kFarBelow = 64;
constexpr double kFewNumbers = 8;

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, const NodeDecl& node) {
  return std::ranges::find(names, node.op_name) != names.end();
}

bool is_often_zero(const TensorDecl& tensor) {
  const Generator& generator = tensor.generator;
  if (generator.kind == "zeros_ones" || generator.kind == "one_hot" || tensor.dtype == DType::kBool)
    return true;
  return !info(tensor.dtype).is_float && generator.bounded && generator.low <= 0 && generator.high >= 0 &&
         generator.high - generator.low <= kFewNumbers;
}

/// Values that have zeros in many places, which hang on the task's inputs: masks, what is cut off,
/// what masks make of others. What a zero is multiplied with, an honest kernel skips.
class Sparse {
 public:
  explicit Sparse(const TaskSpec& spec) {
    for (const TensorDecl& tensor : spec.tensors) {
      if (is_often_zero(tensor)) zeros_.insert(tensor.name);
      if (tensor.generator.kind == "one_hot") nearly_all_zero_.insert(tensor.name);
    }
    for (const NodeDecl& node : spec.nodes) {
      if (is_far_below(node)) far_below_.insert(node.out);
      if (node.op_name == "eq" || (passes_on(node) && has_any(nearly_all_zero_, node)))
        nearly_all_zero_.insert(node.out);
      if (has_zeros(node)) zeros_.insert(node.out);
    }
  }

  bool contains(const std::string& value) const { return zeros_.contains(value); }
  /// Whether it has hardly anything else, so that products with it need little arithmetic.
  bool is_nearly_all_zero(const std::string& value) const { return nearly_all_zero_.contains(value); }
  /// Whether zeros elsewhere may hide all of an operand.
  bool hides(const NodeDecl& node, std::size_t input) const {
    if (is_among(kDecided, node)) return contains(node.in[0]);
    return is_among(kHiding, node) && input < 2 && node.in.size() > 1 && contains(node.in[1 - input]);
  }

 private:
  static bool passes_on(const NodeDecl& node) {
    return node.op->op_class() == OpClass::kElementwise || node.op->op_class() == OpClass::kMove;
  }
  bool has_any(const std::set<std::string>& values, const NodeDecl& node) const {
    return std::ranges::any_of(node.in, [&](const std::string& name) { return values.contains(name); });
  }
  bool is_far_below(const NodeDecl& node) const {
    if (node.op_name == "scale" && has_any(zeros_, node))
      return std::fabs(node.attrs.real("by", 1)) >= kFarBelow;
    return passes_on(node) && has_any(far_below_, node);
  }
  bool has_zeros(const NodeDecl& node) const {
    const bool to_whole = node.op_name == "cast" && !info(node.type.dtype).is_float;
    if (is_among(kZeroing, node) || to_whole) return true;
    if (node.op_name == "clamp")
      return node.in.size() > 1 || node.attrs.real("low", 1) == 0 || node.attrs.real("high", 1) == 0 ||
             has_any(zeros_, node);
    if (is_among(kVanishing, node) && has_any(far_below_, node)) return true;
    const bool adds = node.op_name == "add" || node.op_name == "sub" || node.op_name == "bias_add";
    if (adds)
      return std::ranges::all_of(node.in, [&](const std::string& name) { return zeros_.contains(name); });
    return (passes_on(node) || is_among(kKeepingZeros, node)) && has_any(zeros_, node);
  }

  std::set<std::string> zeros_, far_below_, nearly_all_zero_;
};

/// How many elements of each value every kernel must have: outputs whole, the others as far as the
/// ops can tell what of their inputs a part of their result needs. A native reference does not say.
std::map<std::string, std::int64_t> count_needed(const BoundTask& task) {
  const std::vector<NodeDecl>& nodes = task.spec->nodes;
  const Sparse sparse(*task.spec);
  std::map<std::string, std::int64_t> constants, needed;
  const auto constants_of = [&](const NodeDecl& node) {
    std::vector<std::int64_t> counts;
    for (const std::string& name : node.in) counts.push_back(constants[name]);
    return counts;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    constants[nodes[i].out] = nodes[i].op->constants(task.site(i), constants_of(nodes[i]));
  if (nodes.empty()) return needed;
  for (const OutputDecl& output : task.spec->outputs)
    needed[output.name] = element_count(task.shape_of(output.name));
  for (std::size_t i = nodes.size(); i-- > 0;) {
    Demand demand{.wanted = std::exchange(needed[nodes[i].out], 0), .constants = constants_of(nodes[i])};
    for (const std::string& name : nodes[i].in) {
      const bool hidden = sparse.hides(nodes[i], demand.input);
      const std::int64_t read = hidden ? 0 : nodes[i].op->needs(task.site(i), demand);
      needed[name] = std::max(needed[name], demand.input == 0 ? read - untouched(task, i) : read);
      ++demand.input;
    }
  }
  return needed;
}

void count_bytes(BoundTask& task) {
  const auto needed = count_needed(task);
  for (const OutputDecl& output : task.spec->outputs)
    task.bytes_min += bytes_of(task, output.name, output.dtype);
  for (std::size_t i = 0; i < task.spec->nodes.size(); ++i)
    task.bytes_min -= static_cast<double>(unwritten(task, i, untouched(task, i))) *
                      static_cast<double>(info(task.spec->nodes[i].type.dtype).bytes);
  for (const TensorDecl& tensor : task.spec->tensors)
    if (const auto count = needed.find(tensor.name); count != needed.end() && tensor.role != Role::kScalar)
      task.bytes_min += static_cast<double>(count->second) * static_cast<double>(info(tensor.dtype).bytes);
}

/// A contraction with a structured operand (a diagonal matrix, rows of a single one), or whose
/// result is only reduced, can be computed with far less arithmetic than the textbook algorithm.
bool has_cheaper_algebra(const TaskSpec& spec, const NodeDecl& node, const Sparse& sparse) {
  if (node.op->op_class() != OpClass::kContraction) return false;
  const auto structured = [&](const std::string& name) {
    if (sparse.is_nearly_all_zero(name)) return true;
    const NodeDecl* maker = spec.find_node(name);
    return maker != nullptr &&
           (maker->op->op_class() == OpClass::kMove || maker->op->op_class() == OpClass::kOther);
  };
  if (std::ranges::any_of(node.in, structured)) return true;
  return std::ranges::any_of(spec.nodes, [&](const NodeDecl& reader) {
    const bool reads = std::ranges::find(reader.in, node.out) != reader.in.end();
    const OpClass kind = reader.op->op_class();
    return reads && (kind == OpClass::kReduce || kind == OpClass::kContraction);
  });
}

}  // namespace

double BoundTask::output_elements() const {
  double elements = 0;
  for (const OutputDecl& output : spec->outputs)
    elements += static_cast<double>(element_count(shape_of(output.name)));
  return elements;
}

double BoundTask::value_elements() const {
  double elements = 0;
  for (const auto& [name, shape] : shapes) elements += static_cast<double>(element_count(shape));
  return elements;
}

OpSite BoundTask::site(std::size_t node) const {
  OpSite site{.attrs = attrs[node],
              .in = {},
              .out = shape_of(spec->nodes[node].out),
              .dtype = spec->nodes[node].type.dtype};
  for (const std::string& name : spec->nodes[node].in) site.in.push_back(shape_of(name));
  return site;
}

Result<BoundTask> bind(const TaskSpec& spec, const Dims& dims) {
  LATHE_CHECK_OK(check_domain(spec, dims));
  BoundTask task{.spec = &spec, .dims = dims};
  for (const TensorDecl& tensor : spec.tensors) {
    LATHE_TRY(task.shapes[tensor.name], bind_shape(tensor.shape, dims, tensor.name, tensor.where));
    LATHE_CHECK_OK(check_places(tensor, task.shapes[tensor.name], dims));
  }
  for (const NodeDecl& node : spec.nodes) {
    LATHE_TRY(task.shapes[node.out], bind_shape(node.type.shape, dims, node.out, node.where));
    LATHE_TRY(Attrs attrs, node.attrs.bind(node.op->attr_rules(), dims));
    task.attrs.push_back(std::move(attrs));
  }
  for (const OutputDecl& output : spec.outputs) {
    LATHE_TRY(task.shapes[output.name], bind_shape(output.shape, dims, output.name, output.where));
  }
  const Sparse sparse(spec);
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const OpSite site = task.site(i);
    task.flops += spec.nodes[i].op->flops(site);
    if (!has_cheaper_algebra(spec, spec.nodes[i], sparse)) {
      task.essential_flops += spec.nodes[i].op->essential_flops(site);
    }
  }
  count_bytes(task);
  return task;
}

}  // namespace lathe
