#include <algorithm>
#include <numeric>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

Primitive move(const Lowering& to, const std::string& how, int axis) {
  return {.kind = Kind::kMove, .out = {}, .in = to.node().in, .type = {}, .how = how, .axes = {axis}};
}

bool lower_triangle(Lowering& to, bool upper) {
  const std::string& x = to.node().in[0];
  const std::vector<Expr>& shape = to.shape(x);
  const auto diagonal = to.expression("diagonal", 0);
  if (!diagonal.ok()) return false;
  const std::string columns = to.iota(shape.back(), 0), rows = to.iota(shape[shape.size() - 2], 1);
  const std::string bound = "static_cast<float>(" + diagonal->to_string() + ")";
  to.apply("lathe::select(lathe::" + std::string(upper ? "ge" : "le") + "({1} - {2}, " + bound +
               "), {0}, 0.0f * {1})",
           {x, columns, rows}, true);
  return true;
}

void lower_diag(Lowering& to) {
  const std::string& x = to.node().in[0];
  const Expr extent = to.shape(x).back();
  std::vector<Expr> row = to.shape(x);
  row.insert(row.end() - 1, Expr::constant(1));
  to.apply("lathe::select(lathe::eq({1}, {2}), {0}, 0.0f * {1})",
           {to.view(x, row), to.iota(extent, 0), to.iota(extent, 1)}, true);
}

void lower_transpose(Lowering& to) {
  const int rank = to.rank(to.node().in[0]);
  Primitive permute{.kind = Kind::kPermute, .out = {}, .in = to.node().in, .type = {}};
  for (const std::int64_t axis : to.attrs().integers("perm", {}))
    permute.axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  if (permute.axes.empty()) {
    permute.axes.resize(static_cast<std::size_t>(rank));
    std::iota(permute.axes.begin(), permute.axes.end(), 0);
    std::swap(permute.axes[permute.axes.size() - 1], permute.axes[permute.axes.size() - 2]);
  }
  to.add(permute, true);
}

}  // namespace

bool lower_move(Lowering& to) {
  const std::string& op = to.node().op_name;
  if (op == "reshape" || op == "flatten") return to.view(to.node().in[0], to.node().type.shape, true), true;
  if (op == "transpose") return lower_transpose(to), true;
  if (op == "diag") return lower_diag(to), true;
  if (op == "triu" || op == "tril") return lower_triangle(to, op == "triu");
  if (op == "cumsum" || op == "cumprod") {
    Primitive scan = move(to, op == "cumsum" ? "sum" : "prod", to.axis("axis", -1));
    scan.kind = Kind::kScan;
    return to.add(scan, true), true;
  }
  if (op == "concat" || op == "flip") return to.add(move(to, op, to.axis("axis", -1)), true), true;
  if (op == "gather" || op == "embedding") return to.add(move(to, "gather", to.axis("axis", 0)), true), true;
  if (op != "slice" && op != "pad") return false;
  const auto offset = to.expression(op == "slice" ? "start" : "before", 0);
  if (!offset.ok()) return false;
  Primitive shifted = move(to, op, to.axis("axis", -1));
  shifted.offsets = {*offset};
  shifted.fill = to.attrs().real("value", 0);
  to.add(shifted, true);
  return true;
}

bool lower_attention(Lowering& to) {
  const NodeDecl& node = to.node();
  if (node.op_name != "attention") return false;
  std::vector<Expr> shape = to.shape(node.in[0]);
  const Expr depth = shape.back(), queries = shape[shape.size() - 2];
  const Expr keys = to.shape(node.in[1])[to.shape(node.in[1]).size() - 2];
  shape.back() = keys;
  Primitive scores{
      .kind = Kind::kContract, .out = {}, .in = {node.in[0], node.in[1]}, .type = {DType::kF32, shape}};
  scores.transpose_b = true;
  const std::string scale = node.attrs.has("scale")
                                ? float_text(node.attrs.real("scale", 1))
                                : "lathe::rsqrt(static_cast<float>(" + depth.to_string() + "))";
  std::string s = to.apply("{0} * " + scale, {to.add(scores)});
  if (node.attrs.flag("causal", false))
    s = to.apply("lathe::select(lathe::le({1}, {2} + static_cast<float>(" + (keys - queries).to_string() +
                     ")), {0}, -kInfinity)",
                 {s, to.iota(keys, 0), to.iota(queries, 1)});
  const std::vector<int> last = {static_cast<int>(shape.size()) - 1};
  const std::string e = to.apply("lathe::exp({0} - {1})", {s, to.reduce("max", s, last, true)});
  const std::string p = to.apply("{0} * {1}", {e, to.apply("1.0f / {0}", {to.reduce("sum", e, last, true)})});
  to.add({.kind = Kind::kContract, .out = {}, .in = {p, node.in[2]}, .type = node.type}, true);
  return true;
}

}  // namespace lathe::catalog
