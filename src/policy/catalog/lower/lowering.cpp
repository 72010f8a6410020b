#include "policy/catalog/lower/lowering.h"

#include <algorithm>
#include <charconv>

namespace lathe::catalog {

std::string float_text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text.find('n') != std::string::npos ? (value < 0 ? "-kInfinity" : "kInfinity") : text + "f";
}

std::vector<Expr> broadcast_shape(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  std::vector<Expr> shape(std::max(a.size(), b.size()), Expr::constant(1));
  for (const std::vector<Expr>* from : {&b, &a})
    for (std::size_t i = 0; i < from->size(); ++i) {
      const Expr& extent = (*from)[from->size() - 1 - i];
      if (!is_one(extent)) shape[shape.size() - 1 - i] = extent;
    }
  return shape;
}

int Lowering::axis(std::string_view name, int fallback) const {
  const auto value = static_cast<int>(attrs().integer(name, fallback));
  return value < 0 ? value + rank(node_.in[0]) : value;
}

Result<Expr> Lowering::expression(std::string_view name, std::int64_t fallback) const {
  LATHE_TRY(const Expr given, attrs().expression(name, Expr::constant(fallback)));
  return to_code(graph_, given);
}

std::string Lowering::add(Primitive primitive, bool last) {
  primitive.out = last ? node_.out : graph_.unused(node_.out + "_t" + std::to_string(temporaries_++));
  if (last) primitive.type = node_.type;
  graph_.types[primitive.out] = primitive.type;
  graph_.nodes.push_back(primitive);
  return primitive.out;
}

std::string Lowering::view(const std::string& value, std::vector<Expr> shape, bool last) {
  return add({.kind = Kind::kView,
              .out = {},
              .in = {value},
              .type = {graph_.type_of(value).dtype, std::move(shape)}},
             last);
}

std::string Lowering::reduce(const std::string& how, const std::string& value, const std::vector<int>& axes,
                             bool keep, bool last) {
  std::vector<Expr> shape;
  for (int i = 0; i < rank(value); ++i) {
    const bool reduced = std::ranges::find(axes, i) != axes.end();
    if (!reduced) shape.push_back(this->shape(value)[static_cast<std::size_t>(i)]);
    if (reduced && keep) shape.push_back(Expr::constant(1));
  }
  const auto single = [&](int axis) { return is_one(this->shape(value)[static_cast<std::size_t>(axis)]); };
  if (std::ranges::all_of(axes, single) && !how.starts_with("arg")) {  // of single elements there is no loop
    const std::string same = apply("{0}", {value}, keep && last);
    return keep ? same : view(same, std::move(shape), last);
  }
  return add({.kind = Kind::kReduce,
              .out = {},
              .in = {value},
              .type = {DType::kF32, std::move(shape)},
              .how = how,
              .axes = axes},
             last);
}

std::string Lowering::apply(Formula formula, std::vector<std::string> operands, bool last) {
  std::vector<Expr> shape;
  for (const std::string& operand : operands) shape = broadcast_shape(shape, this->shape(operand));
  return add({.kind = Kind::kApply,
              .out = {},
              .in = std::move(operands),
              .type = {DType::kF32, std::move(shape)},
              .formula = std::move(formula)},
             last);
}

std::string Lowering::apply(const std::string& pattern, std::vector<std::string> operands, bool last) {
  const auto formula = [pattern](std::span<const std::string> names) {
    std::string text = pattern;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string hole = "{" + std::to_string(i) + "}";
      for (std::size_t at = text.find(hole); at != std::string::npos;
           at = text.find(hole, at + names[i].size()))
        text.replace(at, hole.size(), names[i]);
    }
    return text;
  };
  return apply(Formula(formula), std::move(operands), last);
}

std::string Lowering::spread(const std::string& value, std::vector<Expr> shape) {
  return add({.kind = Kind::kApply,
              .out = {},
              .in = {value},
              .type = {DType::kF32, std::move(shape)},
              .formula = same_value});
}

std::string Lowering::iota(const Expr& extent, int behind) {
  const std::string name = graph_.unused(node_.out + "_i" + std::to_string(temporaries_++));
  std::vector<Expr> shape = {extent};
  shape.resize(static_cast<std::size_t>(1 + behind), Expr::constant(1));
  graph_.types[name] = {DType::kF32, shape};
  graph_.iotas.insert(name);
  return name;
}

std::string Lowering::reciprocal_count(std::span<const Expr> extents) {
  return "(1.0f / static_cast<float>(" + product(extents).to_string() + "))";
}

}  // namespace lathe::catalog
