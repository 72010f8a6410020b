#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

Primitive move(const Lowering& to, const std::string& how, int axis) {
  return {.kind = Kind::kMove, .out = {}, .in = to.node().in, .type = {}, .how = how, .axes = {axis}};
}

/// As a value in memory; what is computed from it element by element counts the positions itself.
void lower_iota(Lowering& to) {
  const std::vector<Expr>& shape = to.node().type.shape;
  const auto given = to.attrs().integer("axis", -1), rank = static_cast<std::int64_t>(shape.size());
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  const std::string positions = to.iota(shape[axis], static_cast<int>(shape.size() - axis) - 1);
  to.apply("{0}", {positions}, true);
  to.count_as(positions);
}

bool lower_full(Lowering& to) {
  bool whole = !info(to.node().type.dtype).is_float;
  std::string number;
  if (std::holds_alternative<std::string>(to.attrs().all().find("value")->second)) {
    const Result<Expr> value = to.expression("value", 0);
    if (!value.ok()) return false;
    number = whole ? value->to_string() : "static_cast<float>(" + value->to_string() + ")";
  } else {
    const double value = to.attrs().real("value", 0);
    whole = whole && std::isfinite(value);
    number = whole ? std::to_string(static_cast<std::int64_t>(value)) : float_text(value);
  }
  to.apply(whole ? "0 * {0} + (" + number + ")" : "0.0f * {0} + " + number,
           {to.iota(to.node().type.shape.back(), 0)}, true);
  return true;
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

/// Along rows a scan from the end is one between two flips.
void lower_scan(Lowering& to, const std::string& how) {
  const std::string& x = to.node().in[0];
  const auto axis = static_cast<std::size_t>(to.axis("axis", -1));
  Primitive scan = move(to, how, static_cast<int>(axis));
  std::ranges::reverse(scan.in);  // of a recurrence, what is added comes first
  scan.kind = Kind::kScan;
  scan.type = to.type(x);
  scan.exclusive = to.attrs().flag("exclusive", false);
  const bool reverse = to.attrs().flag("reverse", false);
  const bool along_rows = is_one(product(std::span(to.shape(x)).subspan(axis + 1)));
  scan.reverse = reverse && (!along_rows || is_wide(scan.type.dtype));
  if (!reverse || scan.reverse) return void(to.add(scan, true));
  Primitive flip = move(to, "flip", static_cast<int>(axis));
  flip.type = scan.type;
  for (std::string& operand : scan.in) {
    flip.in = {operand};
    operand = to.add(flip);
  }
  flip.in = {to.add(scan)};
  to.add(flip, true);
}

/// The number modulo the extent, not negative.
Expr wrapped(const Expr& number, const Expr& extent) {
  return Expr::apply("%", Expr::apply("%", number, extent) + extent, extent);
}

/// An axis of extent `times` in front of the repeated one, or behind it, along which the operand is
/// the same.
bool lower_repeat(Lowering& to, bool each) {
  const std::string& x = to.node().in[0];
  const auto times = to.expression("times", 1);
  if (!times.ok()) return false;
  const auto behind = static_cast<std::ptrdiff_t>(to.axis("axis", -1) + (each ? 1 : 0));
  std::vector<Expr> once = to.shape(x);
  once.insert(once.begin() + behind, Expr::constant(1));
  const std::string lone = to.view(x, once);
  once[static_cast<std::size_t>(behind)] = *times;
  to.view(to.spread(lone, once), to.node().type.shape, true);
  return true;
}

/// Elements `start` to `stop` of the node's input along `axis`.
std::string part(Lowering& to, int axis, const Expr& start, const Expr& count) {
  Primitive slice = move(to, "slice", axis);
  slice.type = to.type(to.node().in[0]);
  slice.type.shape[static_cast<std::size_t>(axis)] = count;
  slice.offsets = {start};
  return to.add(slice);
}

/// What a pad takes from the input's own elements: `count` of them at an end.
std::string own_padding(Lowering& to, const std::string& mode, bool at_start, const Expr& count) {
  const int axis = to.axis("axis", -1);
  const Expr extent = to.shape(to.node().in[0])[static_cast<std::size_t>(axis)], one = Expr::constant(1);
  if (mode == "circular") return part(to, axis, at_start ? extent - count : Expr::constant(0), count);
  if (mode == "replicate") {
    const std::string end = part(to, axis, at_start ? Expr::constant(0) : extent - one, one);
    std::vector<Expr> shape = to.shape(end);
    shape[static_cast<std::size_t>(axis)] = count;
    return to.spread(end, shape);
  }
  Primitive flip = move(to, "flip", axis);
  flip.in = {part(to, axis, at_start ? one : extent - count - one, count)};
  flip.type = to.type(flip.in[0]);
  return to.add(flip);
}

/// Paddings of fixed extents alone: those of others may be empty.
bool lower_own_padding(Lowering& to, const std::string& mode) {
  const Result<Expr> before = to.expression("before", 0), after = to.expression("after", 0);
  if (!before.ok() || !after.ok() || !before->is_constant() || !after->is_constant()) return false;
  const auto is_empty = [](const Expr& count) { return *count.evaluate({}) == 0; };
  Primitive joined = move(to, "concat", to.axis("axis", -1));
  if (!is_empty(*before)) joined.in.insert(joined.in.begin(), own_padding(to, mode, true, *before));
  if (!is_empty(*after)) joined.in.push_back(own_padding(to, mode, false, *after));
  if (joined.in.size() == 1)
    to.apply("{0}", joined.in, true);
  else
    to.add(joined, true);
  return true;
}

/// Of one line, what a gather does.
void lower_take_along(Lowering& to) {
  to.add(move(to, to.rank(to.node().in[0]) == 1 ? "gather" : "take_along", to.axis("axis", -1)), true);
}

}  // namespace

bool lower_move(Lowering& to) {
  const std::string& op = to.node().op_name;
  if (op == "reshape" || op == "flatten") return to.view(to.node().in[0], to.node().type.shape, true), true;
  if (op == "transpose") return lower_transpose(to), true;
  if (op == "iota") return lower_iota(to), true;
  if (op == "full") return lower_full(to);
  if (op == "diag") return lower_diag(to), true;
  if (op == "triu" || op == "tril") return lower_triangle(to, op == "triu");
  if (op.starts_with("cum")) return lower_scan(to, op.substr(3)), true;
  if (op == "linear_scan") return lower_scan(to, "linear"), true;
  if (op == "concat" || op == "flip") return to.add(move(to, op, to.axis("axis", -1)), true), true;
  if (op == "gather" || op == "embedding") return to.add(move(to, "gather", to.axis("axis", 0)), true), true;
  if (op == "tile" || op == "repeat_interleave") return lower_repeat(to, op != "tile");
  if (op.starts_with("scatter") || op.starts_with("segment_") || op == "bincount") {
    const std::string how = op == "segment_sum" ? "sum" : op == "scatter_add" ? "add" : op;
    to.add({.kind = Kind::kSegments, .out = {}, .in = to.node().in, .type = {}, .how = how}, true);
    return true;
  }
  if (op == "take_along") return lower_take_along(to), true;
  if (op == "sort" || op == "argsort") {
    Primitive sort = move(to, op == "sort" ? "values" : "places", to.axis("axis", -1));
    sort.kind = Kind::kSort;
    sort.reverse = to.attrs().flag("descending", false);
    return to.add(sort, true), true;
  }
  if (op != "slice" && op != "pad" && op != "roll") return false;
  const std::string mode = to.attrs().text("mode", "constant");
  if (mode != "constant") return lower_own_padding(to, mode);
  const auto offset = to.expression(op == "slice" ? "start" : op == "pad" ? "before" : "shift", 0);
  if (!offset.ok()) return false;
  Primitive shifted = move(to, op, to.axis("axis", -1));
  const Expr extent = to.node().type.shape[static_cast<std::size_t>(shifted.axes[0])];
  shifted.offsets = {op == "roll" ? wrapped(*offset, extent) : *offset};
  shifted.fill = to.attrs().real("value", 0);
  to.add(shifted, true);
  return true;
}

/// Heads that share keys are rows of one product. A query that sees no key has a row of zeros.
bool lower_attention(Lowering& to) {
  const NodeDecl& node = to.node();
  if (node.op_name != "attention") return false;
  const std::vector<Expr> q = to.shape(node.in[0]), k = to.shape(node.in[1]);
  const std::size_t rank = q.size();
  const Expr depth = q.back(), queries = q[rank - 2], keys = k[rank - 2];
  const bool shares = rank > 2 && !equal(q[rank - 3], k[rank - 3]);
  std::vector<Expr> rows = q, shape = q;  // of scores, in the products and in the softmax
  rows.back() = shape.back() = keys;
  std::string query = node.in[0];
  if (shares) {
    const Expr sharing = q[rank - 3] / k[rank - 3];
    rows[rank - 3] = shape[rank - 3] = k[rank - 3];
    rows[rank - 2] = sharing * queries;
    shape.insert(shape.end() - 2, sharing);
    std::vector<Expr> stacked = rows;
    stacked.back() = depth;
    query = to.view(query, stacked);
  }
  Primitive scores{
      .kind = Kind::kContract, .out = {}, .in = {query, node.in[1]}, .type = {DType::kF32, rows}};
  scores.transpose_b = true;
  const std::string scale = node.attrs.has("scale")
                                ? float_text(node.attrs.real("scale", 1))
                                : "lathe::rsqrt(static_cast<float>(" + depth.to_string() + "))";
  std::string s = to.apply("{0} * " + scale, {to.add(scores)});
  if (shares) s = to.view(s, shape);

  const bool causal = node.attrs.flag("causal", false), named = node.in.size() > 3;
  std::vector<std::string> operands = {s};
  std::string bound;  // the last key that a query sees
  if (causal || named) operands.push_back(to.iota(keys, 0));
  if (causal) operands.push_back(to.iota(queries, 1));
  if (named) {
    std::vector<Expr> sequences = to.shape(node.in[3]);
    sequences.resize(shape.size(), Expr::constant(1));
    operands.push_back(to.view(node.in[3], sequences));
    const Expr behind = queries - Expr::constant(1);
    const Expr end = keys - Expr::constant(1);
    bound = causal ? "{2} + lathe::min({3}, static_cast<float>(" + end.to_string() +
                         ")) - static_cast<float>(" + behind.to_string() + ")"
                   : "{2}";
  } else if (causal) {
    bound = "{2} + static_cast<float>(" + (keys - queries).to_string() + ")";
  }
  if (!bound.empty()) s = to.apply("lathe::select(lathe::le({1}, " + bound + "), {0}, -kInfinity)", operands);

  const std::vector<int> last = {static_cast<int>(shape.size()) - 1};
  const bool blind = named || (causal && !equal(keys, queries));  // maybe: it has no maximum and no sum
  std::string top = to.reduce("max", s, last, true);
  if (blind) top = to.apply("lathe::max({0}, -3.0e38f)", {top});
  const std::string e = to.apply("lathe::exp({0} - {1})", {s, top});
  const std::string total = to.reduce("sum", e, last, true);
  const std::string inverse = to.apply(blind ? "1.0f / lathe::max({0}, 1.0e-30f)" : "1.0f / {0}", {total});
  std::string p = to.apply("{0} * {1}", {e, inverse});
  if (shares) p = to.view(p, rows);
  Primitive mixed{.kind = Kind::kContract, .out = {}, .in = {p, node.in[2]}, .type = {DType::kF32, rows}};
  mixed.type.shape.back() = node.type.shape.back();
  const std::string y = to.add(mixed, !shares);
  if (shares) to.view(y, node.type.shape, true);
  return true;
}

}  // namespace lathe::catalog
