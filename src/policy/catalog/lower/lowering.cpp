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

namespace {

/// Whether fp32 does not hold what the node computes or computes with. An index that is compared
/// with positions, what is compared with a number, and what becomes a float are read as fp32.
bool needs_own_types(const Graph& graph, const NodeDecl& node) {
  const auto is_double = [](DType dtype) { return dtype == DType::kF64; };
  const auto type_of = [&](const std::string& value) { return graph.type_of(value).dtype; };
  if (is_double(node.type.dtype) ||
      std::ranges::any_of(node.in, [&](const std::string& value) { return is_double(type_of(value)); }))
    return true;
  const bool narrows = info(node.type.dtype).is_float || node.type.dtype == DType::kBool;
  if (is_wide(node.type.dtype) && !node.op_name.starts_with("arg")) return true;
  const OpClass kind = node.op->op_class();
  const bool computes = kind == OpClass::kElementwise || kind == OpClass::kReduce;
  const bool masks =
      node.type.dtype == DType::kBool && (node.in.size() == 1 || node.op_name.starts_with("logical"));
  const bool only_reads = masks || (narrows && (node.op_name == "cast" || node.op_name == "where"));
  return computes && !only_reads &&
         std::ranges::any_of(node.in, [&](const std::string& value) { return is_wide(type_of(value)); });
}

}  // namespace

Lowering::Lowering(Graph& graph, const NodeDecl& node)
    : graph_(graph), node_(node), exact_(needs_own_types(graph, node)) {
  const auto is_double = [&](const std::string& value) { return graph.type_of(value).dtype == DType::kF64; };
  if (node.type.dtype == DType::kF64 || std::ranges::any_of(node.in, is_double)) temporary_ = DType::kF64;
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
  primitive.exact = exact_;
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
              .type = {temporary_, std::move(shape)},
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
              .type = {temporary_, std::move(shape)},
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
              .type = {graph_.type_of(value).dtype, std::move(shape)},
              .formula = same_value});
}

std::string Lowering::iota(const Expr& extent, int behind) {
  const std::string name = graph_.unused(node_.out + "_i" + std::to_string(temporaries_++));
  std::vector<Expr> shape = {extent};
  shape.resize(static_cast<std::size_t>(1 + behind), Expr::constant(1));
  const bool whole = is_wide(node_.type.dtype) && !node_.op_name.starts_with("arg");
  graph_.types[name] = {whole ? node_.type.dtype : temporary_, shape};
  graph_.iotas.insert(name);
  return name;
}

std::string Lowering::reciprocal_count(std::span<const Expr> extents) {
  return "(1.0f / static_cast<float>(" + product(extents).to_string() + "))";
}

}  // namespace lathe::catalog
