#include "task/spans.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {
namespace {

using Spans = std::map<std::string, std::int64_t, std::less<>>;

constexpr std::int64_t kMost = std::int64_t{1} << 31;  // elements of a tensor

/// The value of what depends on no dim, else 0.
std::int64_t constant_of(const Expr& expr) {
  const Result<std::int64_t> value = expr.is_constant() ? expr.evaluate({}) : Result<std::int64_t>(0);
  return value.ok() ? std::clamp(*value, -kMost, kMost) : 0;
}

std::int64_t constant_of(const Attrs& attrs, std::string_view name, std::int64_t fallback) {
  const Result<Expr> value = attrs.expression(name, Expr::constant(fallback));
  return value.ok() ? constant_of(*value) : fallback;
}

std::vector<Expr> list_of(const Attrs& attrs, std::string_view name) {
  Result<std::vector<Expr>> values = attrs.expressions(name, {});
  return values.ok() ? *std::move(values) : std::vector<Expr>();
}

const std::vector<Expr>* shape_of(const TaskSpec& spec, std::string_view value) {
  if (const NodeDecl* const node = spec.find_node(value)) return &node->type.shape;
  if (const TensorDecl* const tensor = spec.find_tensor(value)) return &tensor->shape;
  return nullptr;
}

/// The `i`th of as many as there are axes, or the only one, which is of all.
std::int64_t at(const std::vector<Expr>& values, std::size_t i, std::int64_t fallback) {
  return values.empty() ? fallback : constant_of(values[std::min(i, values.size() - 1)]);
}

class SpanList {
 public:
  explicit SpanList(const TaskSpec& spec) : spec_(spec) {}

  void add(const NodeDecl& node) {
    if (node.in.empty()) return;
    const std::vector<Expr>* const shape =
        node.op_name == "fold" ? &node.type.shape : shape_of(spec_, node.in[0]);
    if (shape == nullptr) return;
    add_windows(node, *shape);
    const auto rank = static_cast<std::int64_t>(shape->size());
    const std::int64_t axis = constant_of(node.attrs, "axis", -1);
    for (const std::string_view name : {"shift", "before", "after"})
      add_axis(*shape, axis < 0 ? axis + rank : axis, std::abs(constant_of(node.attrs, name, 0)));
    const std::vector<Expr> size = list_of(node.attrs, "size");  // of an image that is made of another
    const std::int64_t axes = rank - 2;
    for (std::int64_t i = 0; !size.empty() && i < axes; ++i)
      add_axis(*shape, 2 + i, at(size, static_cast<std::size_t>(i), 1));
    const std::int64_t diagonal = std::abs(constant_of(node.attrs, "diagonal", 0));
    for (const std::int64_t last : {rank - 2, rank - 1}) add_axis(*shape, last, diagonal);
  }
  Spans take() { return std::move(spans_); }

 private:
  /// Windows of the last axes: a kernel's extents are an attribute, or the last ones of the
  /// weights.
  void add_windows(const NodeDecl& node, const std::vector<Expr>& shape) {
    std::vector<Expr> kernel = list_of(node.attrs, "kernel");
    std::size_t axes = 0;
    for (const char digit : {'1', '2', '3'})
      if (node.op_name.ends_with(std::string{digit, 'd'})) axes = static_cast<std::size_t>(digit - '0');
    if (!kernel.empty() && axes == 0) axes = 2;  // unfold and fold
    const bool has_weights = kernel.empty() && node.in.size() > 1 && node.op_name.starts_with("conv");
    if (const auto* weights = has_weights ? shape_of(spec_, node.in[1]) : nullptr; weights != nullptr)
      if (axes < weights->size())
        kernel.assign(weights->end() - static_cast<std::ptrdiff_t>(axes), weights->end());
    if (axes > shape.size()) return;
    const std::vector<Expr> dilation = list_of(node.attrs, "dilation");
    for (std::size_t i = 0; i < axes; ++i)
      add_axis(shape, static_cast<std::int64_t>(shape.size() - axes + i),
               (at(kernel, i, 1) - 1) * at(dilation, i, 1) + 1);
  }

  void add_axis(const std::vector<Expr>& shape, std::int64_t axis, std::int64_t span) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()) || span < 2) return;
    for (const std::string& dim : shape[static_cast<std::size_t>(axis)].symbols())
      spans_[dim] = std::max(spans_[dim], span);
  }

  const TaskSpec& spec_;
  Spans spans_;
};

}  // namespace

Spans longest_spans(const TaskSpec& spec) {
  SpanList list(spec);
  for (const NodeDecl& node : spec.nodes) list.add(node);
  return list.take();
}

}  // namespace lathe
