#include "task/telling_values.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
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
};

/// What a node makes of its first operand, if that is simple.
std::optional<Made> after(const NodeDecl& node, Made of) {
  const bool to_float = info(node.type.dtype).is_float;
  if (node.op->op_class() == OpClass::kMove || (node.op_name == "cast" && to_float)) return of;
  if (!to_float) return std::nullopt;
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
      for (const double value : telling_inputs(*node.op, node.attrs, input, decl.dtype))
        for (const double x : sources(of, value))
          values.push_back(info(decl.dtype).is_float ? x : std::round(x));
      if (const auto next = input == 0 ? after(node, of) : std::nullopt) made.emplace(node.out, *next);
    }
  }
  return values;
}

std::vector<Line> lines_taken_together(const BoundTask& task, const TensorDecl& decl) {
  const Shape& shape = task.shape_of(decl.name);
  const TaskSpec& spec = *task.spec;
  std::vector<Line> lines;
  std::set<std::string_view> alike = {decl.name};
  for (std::size_t n = 0; n < spec.nodes.size(); ++n) {
    const NodeDecl& node = spec.nodes[n];
    if (node.in.empty() || std::ranges::none_of(node.in, [&](const auto& in) { return alike.contains(in); }))
      continue;
    if (node.op->op_class() == OpClass::kElementwise && task.shape_of(node.out) == shape)
      alike.insert(node.out);
    const auto axes =
        alike.contains(node.in[0]) ? axes_together(node, task.attrs[n], shape.size()) : std::nullopt;
    if (!axes || (axes->first + 1 == shape.size())) continue;
    Line line;
    for (std::size_t axis = axes->first; axis < shape.size(); ++axis)
      (axis < axes->second ? line.length : line.stride) *= static_cast<std::size_t>(shape[axis]);
    if (line.length > 1) lines.push_back(line);
  }
  return lines;
}

}  // namespace lathe
