#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// Where operand element (row, column) of the current batch lies; `stored` swapped when transposed.
std::string matrix_position(const Operand& operand, std::vector<std::string> batch, std::string row,
                            std::string column, bool transposed) {
  if (transposed) std::swap(row, column);
  batch.push_back(row);
  batch.push_back(column);
  return broadcast_position(operand, batch);
}

/// `value` of an operand in the type that the sum has.
std::string in_type(const Operand& operand, const std::string& value, const std::string& type) {
  return operand.c_type() == type ? value : "static_cast<" + type + ">(" + value + ")";
}

}  // namespace

/// One row of the result an item, or one element where items are cheap. The inner loop runs over
/// columns, so that it vectorises; over a transposed right operand, or into a result too narrow to
/// accumulate in, it is a dot product. Sums in parts are a strip of columns at a time.
LoopNest emit_matmul(const Site& site) {
  const Operand& out = site.out;
  const bool transpose_a = site.attrs.flag("transpose_a", false);
  const bool transpose_b = site.attrs.flag("transpose_b", false);
  std::vector<std::string> indices = index_names(out.rank() - 1);
  const std::vector<Expr> rows(out.shape.begin(), out.shape.end() - 1);
  const std::vector<std::string> batch(indices.begin(), indices.end() - 1);
  const std::string type = out.compute_type();
  const std::size_t inner = site.in[0].shape.size() - (transpose_a ? 2 : 1);
  const Expr depth = site.in[0].shape[inner];
  const std::string left = in_type(
      site.in[0], site.in[0].at(matrix_position(site.in[0], batch, indices.back(), "k", transpose_a)), type);
  const std::string right =
      in_type(site.in[1], site.in[1].at(matrix_position(site.in[1], batch, "k", "j", transpose_b)), type);
  Holes fields = {
      {"indices", unflatten("item", rows, indices)},
      {"rows", unflatten("row", rows, indices)},
      {"n", out.extent(-1)},
      {"depth", factor(depth)},
      {"left", left},
      {"right", right},
      {"type", type},
      {"stored", out.c_type()},
      {"out", out.name},
  };
  fields.emplace_back("add_products",
                      sum_loop(site, "k", depth, expand("sum += $left * $right;\n", {}, fields)));
  if (site.many_items)
    return {out.count(), expand(R"(
const int64_t row = item / $n, j = item % $n;
$rows
$type sum = 0;
$add_products
$out[item] = sum;
)",
                                {}, fields)};
  const bool accumulates_in_place = out.compute_type() == out.c_type();
  if (transpose_b || !accumulates_in_place)
    return {out.count(0, out.rank() - 1), expand(R"(
$indices
for (int64_t j = 0; j < $n; ++j) {
  $type sum = 0;
  $add_products
  $out[item * $n + j] = sum;
}
)",
                                                 {}, fields)};
  if (needs_parts(site, depth))
    return {out.count(0, out.rank() - 1),
            unflatten("item", rows, indices) + in_parts({.type = type,
                                                         .columns = out.extent(-1),
                                                         .depth = factor(depth),
                                                         .left = left,
                                                         .right = right,
                                                         .out = out.at("item * " + out.extent(-1) + " + j")},
                                                        1024)};
  return {out.count(0, out.rank() - 1), expand(R"(
$indices
$stored* row = $out + item * $n;
for (int64_t j = 0; j < $n; ++j) row[j] = 0;
for (int64_t k = 0; k < $depth; ++k) {
  const $type left = $left;
  for (int64_t j = 0; j < $n; ++j) row[j] += left * $right;
}
)",
                                               {}, fields)};
}

LoopNest emit_linear(const Site& site) {
  const Operand& x = site.in[0];
  const Operand& weight = site.in[1];
  const std::string type = site.out.compute_type();
  const std::string row = site.many_items ? "row" : "item";
  Holes fields = {{"n", weight.extent(0)},
                  {"type", type},
                  {"x", in_type(x, x.at(row + " * " + weight.extent(1) + " + k"), type)},
                  {"weight", in_type(weight, weight.at("j * " + weight.extent(1) + " + k"), type)},
                  {"bias", site.in.size() > 2 ? " + " + site.in[2].at("j") : ""},
                  {"out", site.out.at(row + " * " + weight.extent(0) + " + j")}};
  fields.emplace_back("add_products",
                      sum_loop(site, "k", weight.shape[1], expand("sum += $x * $weight;\n", {}, fields)));
  const std::string element = expand(R"(
$type sum = 0;
$add_products
$out = sum$bias;
)",
                                     {}, fields);
  const Expr rows = x.count(0, x.rank() - 1);
  if (site.many_items)
    return {rows * weight.shape[0],
            expand("const int64_t row = item / $n, j = item % $n;\n", {}, fields) + element};
  return {rows, loop("j", weight.shape[0], element)};
}

/// One row of the result an item, or one element where items are cheap.
LoopNest emit_grouped_matmul(const Site& site) {
  const Operand &x = site.in[0], &w = site.in[1], &offsets = site.in[2];
  const bool transposed = site.attrs.flag("transpose_b", false);
  const std::string type = site.out.compute_type(), row = site.many_items ? "row" : "item";
  const std::string depth = x.extent(1), columns = site.out.extent(1);
  const std::string weight =
      expand(transposed ? "(group * $columns + j) * $depth + k" : "(group * $depth + k) * $columns + j",
             {{"depth", depth}, {"columns", columns}});
  Holes fields = {{"groups", w.extent(0)},
                  {"row", row},
                  {"end", offsets.at("group + 1")},
                  {"type", type},
                  {"x", in_type(x, x.at(row + " * " + depth + " + k"), type)},
                  {"weight", in_type(w, w.at(weight), type)},
                  {"out", site.out.at(row + " * " + columns + " + j")}};
  fields.emplace_back("add_products",
                      sum_loop(site, "k", x.shape[1], expand("sum += $x * $weight;\n", {}, fields)));
  const std::string group =
      expand("int64_t group = 0;\nwhile (group + 1 < $groups && $end <= $row) ++group;\n", {}, fields);
  const std::string element = expand(R"(
$type sum = 0;
$add_products
$out = sum;
)",
                                     {}, fields);
  if (site.many_items)
    return {site.out.count(),
            expand("const int64_t row = item / $n, j = item % $n;\n", {{"n", columns}}) + group + element};
  return {site.out.shape[0], group + loop("j", site.out.shape[1], element)};
}

LoopNest emit_outer(const Site& site) {
  const std::string to = site.out.at("item * " + site.out.extent(1) + " + j");
  return {site.out.shape[0], loop("j", site.out.shape[1],
                                  to + " = " + site.in[0].at("item") + " * " + site.in[1].at("j") + ";\n")};
}

}  // namespace lathe::naive
