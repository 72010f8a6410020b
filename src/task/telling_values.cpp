#include "task/telling_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "task/telling.h"

namespace lathe {
namespace {

/// factor x + shift.
struct Affine {
  double factor = 1;
  double shift = 0;

  Affine then(const Affine& next) const { return {factor * next.factor, shift * next.factor + next.shift}; }
  double inverse(double y) const { return (y - shift) / factor; }
};

/// What a value is made of an input's: `outer` of `inner`, or of the magnitude of that.
struct Made {
  Affine inner;
  bool folded = false;
  Affine outer = {};
  bool far_only = false;  ///< only what is far beyond a limit is still there
};

constexpr double kOrdinarySum = 16;  // sums of ordinary values are as large

/// Ops after which a value that is far beyond a limit still is.
constexpr std::array<std::string_view, 7> kNearlyKept = {"add",   "sub",  "mul",  "round",
                                                         "floor", "ceil", "trunc"};
/// The same of values that are positive.
constexpr std::array<std::string_view, 12> kKeptWhereLarge = {
    "relu",     "leaky_relu", "elu",       "selu", "gelu", "silu",
    "softplus", "mish",       "hardswish", "max",  "div",  "square"};

/// The values beyond which an op keeps nothing of its first operand, but what lies there.
std::vector<double> limits_of(const TaskSpec& spec, const NodeDecl& node) {
  if (node.op_name == "clamp" || node.op_name == "hardtanh") {
    const double unless_given = node.op_name == "clamp" ? INFINITY : 1;
    std::vector<double> limits = {node.attrs.real("low", -unless_given),
                                  node.attrs.real("high", unless_given)};
    std::erase_if(limits, [](double limit) { return !std::isfinite(limit); });
    return limits;
  }
  if (node.op_name == "max" || node.op_name == "min") {
    const NodeDecl* const other = node.in.size() > 1 ? spec.find_node(node.in[1]) : nullptr;
    if (other != nullptr && other->op_name == "full") return {other->attrs.real("value", 0)};
  }
  const DTypeInfo& type = info(node.type.dtype);
  if (node.op_name == "cast" && !type.is_float && type.bytes <= 4) return {type.lowest, type.largest};
  return {};
}

/// Of a limit, on both sides: near, and so far that other operands do not lead back.
std::vector<double> beside(double limit, bool far_only) {
  const double step = 0.5 * std::fabs(limit) + 1, leap = 8 * step;
  if (far_only && std::fabs(limit) < kOrdinarySum) return {};
  if (far_only) return {limit - leap, limit + leap};
  return {limit - leap, limit - step, limit + step, limit + leap};
}

/// Whether results are sums or means of several elements, or the largest of them: where all or one
/// of them are far beyond a limit, most results are.
bool takes_several(const NodeDecl& node) {
  const OpClass kind = node.op->op_class();
  return kind == OpClass::kContraction || kind == OpClass::kReduce || kind == OpClass::kScan ||
         kind == OpClass::kStencil;
}

/// What a node's first operand is typically multiplied by where it takes several.
double typical_factor(const TaskSpec& spec, const NodeDecl& node) {
  if (node.in.size() < 2) return 1;
  const auto other = std::ranges::find(spec.tensors, node.in[1], &TensorDecl::name);
  return other == spec.tensors.end() || !(other->generator.scale > 0) ? 1 : other->generator.scale;
}

/// What a node makes of its first operand, if that is simple.
std::optional<Made> after(const TaskSpec& spec, const NodeDecl& node, Made of) {
  const bool to_float = info(node.type.dtype).is_float;
  if (node.op->op_class() == OpClass::kMove || (node.op_name == "cast" && to_float)) return of;
  if (!to_float) return std::nullopt;
  if (std::ranges::count(kNearlyKept, node.op_name) > 0) return of;
  Affine next;
  if (node.op_name == "neg") {
    next.factor = -1;
  } else if (node.op_name == "scale") {
    next.factor = node.attrs.real("by", 1);
  } else if (node.op_name == "add_scalar") {
    next.shift = node.attrs.real("by", 0);
  } else if (node.op_name == "abs" && !of.folded) {
    of.folded = true;
    return of;
  } else if (takes_several(node) || std::ranges::count(kKeptWhereLarge, node.op_name) > 0) {
    of.far_only = true;
    if (takes_several(node)) next.factor = typical_factor(spec, node);
  } else {
    return std::nullopt;
  }
  if (next.factor == 0) return std::nullopt;
  Affine& last = of.folded ? of.outer : of.inner;
  last = last.then(next);
  return of;
}

/// The input's values of which `value` is made.
std::vector<double> sources(const Made& made, double value) {
  if (!made.folded) return {made.inner.inverse(value)};
  const double magnitude = made.outer.inverse(value);
  if (magnitude < 0) return {};
  return {made.inner.inverse(magnitude), made.inner.inverse(-magnitude)};
}

/// The extents that an op takes together: contiguous axes of `rank`, the first and the one beyond
/// the last; none for others.
std::optional<std::pair<std::size_t, std::size_t>> axes_together(const NodeDecl& node, const Attrs& attrs,
                                                                 std::size_t rank) {
  const OpClass kind = node.op->op_class();
  if (kind != OpClass::kReduce && kind != OpClass::kRowwise && kind != OpClass::kScan) return std::nullopt;
  std::vector<std::int64_t> axes =
      attrs.has("axes") ? attrs.integers("axes", {}) : std::vector<std::int64_t>{attrs.integer("axis", -1)};
  const auto rules = node.op->attr_rules();
  const bool of_all = std::ranges::any_of(rules, [](const AttrRule& rule) { return rule.name == "axes"; }) &&
                      !attrs.has("axes") && !attrs.has("axis");
  if (of_all) return std::pair<std::size_t, std::size_t>{0, rank};
  for (std::int64_t& axis : axes)
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
  std::ranges::sort(axes);
  if (axes.empty() || axes.front() < 0) return std::nullopt;
  const auto first = static_cast<std::size_t>(axes.front()), end = static_cast<std::size_t>(axes.back()) + 1;
  if (end > rank || end - first != axes.size()) return std::nullopt;
  return std::pair{first, end};
}

/// Which of an input's axes each axis of a value made of it is, if any.
using Axes = std::vector<std::optional<std::size_t>>;

/// Those of an elementwise result, of an operand that may be smaller.
Axes broadcast(const Axes& axes, const Shape& operand, const Shape& result) {
  Axes made(result.size());
  for (std::size_t axis = 0; axis < operand.size() && operand.size() <= result.size(); ++axis) {
    const std::size_t of_result = result.size() - operand.size() + axis;
    if (operand[axis] == result[of_result]) made[of_result] = axes[axis];
  }
  return made;
}

/// What an op that takes a range of axes together takes of an input; none where that is one
/// element, or a row.
std::optional<Line> line_of(const Axes& axes, std::optional<std::pair<std::size_t, std::size_t>> together,
                            const Shape& shape) {
  if (!together) return std::nullopt;
  std::optional<std::size_t> first, last;
  for (std::size_t axis = together->first; axis < together->second; ++axis) {
    if (!axes[axis]) continue;
    if (last && *axes[axis] != *last + 1) return std::nullopt;
    last = axes[axis];
    if (!first) first = last;
  }
  if (!first || *first + 1 == shape.size()) return std::nullopt;
  Line line;
  for (std::size_t axis = *first; axis < shape.size(); ++axis)
    (axis <= *last ? line.length : line.stride) *= static_cast<std::size_t>(shape[axis]);
  return line.length > 1 ? std::optional(line) : std::nullopt;
}

}  // namespace

std::vector<double> telling_values(const TaskSpec& spec, const TensorDecl& decl) {
  std::vector<double> values;
  // A module's thresholds are not known, and where it rounds are halves.
  if (spec.reference == ReferenceKind::kProcess && info(decl.dtype).is_float)
    for (const double half : {0.5, 1.5, 2.5, 3.5}) values.insert(values.end(), {half, -half});
  std::map<std::string_view, Made> made = {{decl.name, Made{}}};
  for (const NodeDecl& node : spec.nodes) {
    for (std::size_t input = 0; input < node.in.size(); ++input) {
      const auto it = made.find(node.in[input]);
      if (it == made.end()) continue;
      const Made of = it->second;
      std::vector<double> telling;
      if (!of.far_only) telling = telling_inputs(*node.op, node.attrs, input, decl.dtype);
      if (input == 0)
        for (const double limit : limits_of(spec, node))
          for (const double value : beside(limit, of.far_only)) telling.push_back(value);
      for (const double value : telling)
        for (const double x : sources(of, value))
          values.push_back(info(decl.dtype).is_float ? x : std::round(x));
      const bool passes = input == 0 || node.op_name == "add" || node.op_name == "mul";
      if (const auto next = passes ? after(spec, node, of) : std::nullopt) made.emplace(node.out, *next);
    }
  }
  return values;
}

std::vector<Line> lines_taken_together(const BoundTask& task, const TensorDecl& decl) {
  const Shape& shape = task.shape_of(decl.name);
  const TaskSpec& spec = *task.spec;
  std::vector<Line> lines;
  std::map<std::string_view, Axes> alike;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) alike[decl.name].push_back(axis);
  for (std::size_t n = 0; n < spec.nodes.size(); ++n) {
    const NodeDecl& node = spec.nodes[n];
    const auto operand = std::ranges::find_if(node.in, [&](const auto& in) { return alike.contains(in); });
    if (operand == node.in.end()) continue;
    const Axes axes = alike.at(*operand);
    if (node.op->op_class() == OpClass::kElementwise)
      alike.emplace(node.out, broadcast(axes, task.shape_of(*operand), task.shape_of(node.out)));
    if (operand != node.in.begin()) continue;
    if (const auto line = line_of(axes, axes_together(node, task.attrs[n], axes.size()), shape))
      lines.push_back(*line);
  }
  return lines;
}

}  // namespace lathe
