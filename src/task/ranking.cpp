#include "task/ranking.h"

#include "base/large_vector.h"

namespace lathe {
namespace {

const NodeDecl* maker_of(const TaskSpec& spec, const NodeDecl& node) {
  const NodeDecl* maker = spec.find_node(node.in[0]);
  return maker != nullptr && maker < &node ? maker : nullptr;
}

std::size_t wrapped(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

/// Of a slice or an argsort, whose shape rules see to it that it is a number.
std::size_t axis_of(const NodeDecl& node) {
  const auto axis = node.attrs.expression("axis", Expr::constant(-1));
  const auto value = axis->evaluate({});
  return wrapped(value.ok() ? *value : -1, node.type.shape.size());
}

std::size_t count_behind(const Shape& shape, std::size_t axis) {
  std::size_t count = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

Value with_axis_last(const Value& x, std::size_t axis, double sign, double tolerance) {
  const std::size_t inner = count_behind(x.shape, axis), length = static_cast<std::size_t>(x.shape[axis]);
  Value source{.shape = x.shape, .data = zero_vector<double>(x.data.size()), .err = {}};
  fill_zeros(source.err, x.data.size());
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::size_t outer = i / (length * inner);
    const std::size_t to = (outer * inner + i % inner) * length + i / inner % length;
    source.data[to] = sign * x.data[i];
    source.err[to] = tolerance * x.error_at(i);
  }
  return source;
}

std::size_t index_of(const TaskSpec& spec, const NodeDecl& node) {
  return static_cast<std::size_t>(&node - spec.nodes.data());
}

}  // namespace

const NodeDecl* ranking_of(const TaskSpec& spec, const NodeDecl& node) {
  const NodeDecl* at = &node;
  while (at != nullptr && at->op_name == "slice" && axis_of(*at) == axis_of(node)) at = maker_of(spec, *at);
  return at != nullptr && at->op_name == "argsort" && axis_of(*at) == axis_of(node) ? at : nullptr;
}

void expect_extremum(const BoundTask& task, const NodeDecl& node, const Value& x, Expected& expected) {
  const std::size_t axis =
      wrapped(task.attrs[index_of(*task.spec, node)].integer("axis", -1), x.shape.size());
  expected.source = with_axis_last(x, axis, node.op_name == "argmin" ? -1 : 1, task.spec->tolerance);
}

void expect_ranks(const BoundTask& task, const NodeDecl& node, const Value& x, Expected& expected) {
  const TaskSpec& spec = *task.spec;
  const NodeDecl& ranking = *ranking_of(spec, node);
  std::vector<const NodeDecl*> cuts;
  for (const NodeDecl* at = &node; at != &ranking; at = maker_of(spec, *at)) cuts.push_back(at);

  const Value* operands[] = {&x};
  OpSite site = task.site(index_of(spec, ranking));
  Value ranks;
  find_op("sort")->evaluate(site, operands, Numerics{.unit_roundoff = 0}, ranks);
  for (std::size_t i = cuts.size(); i-- > 0;) {
    Value cut;
    operands[0] = &ranks;
    cuts[i]->op->evaluate(task.site(index_of(spec, *cuts[i])), operands, Numerics{.unit_roundoff = 0}, cut);
    ranks = std::move(cut);
  }
  for (double& error : ranks.err) error *= spec.tolerance;
  const std::size_t axis = axis_of(node);
  expected.value.err = std::move(ranks.err);
  expected.source = with_axis_last(x, axis, 1, spec.tolerance);
  expected.line_length = static_cast<std::size_t>(expected.value.shape[axis]);
  expected.line_stride = count_behind(expected.value.shape, axis);
}

}  // namespace lathe
