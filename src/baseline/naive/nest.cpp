#include "baseline/naive/nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace lathe::naive {

std::string Operand::c_type() const { return std::string(info(dtype).c_name); }

std::string Operand::extent(int axis) const {
  return factor(shape.at(static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)));
}

std::string Operand::compute_type() const {
  if (dtype == DType::kF64) return "double";
  if (info(dtype).is_float) return "float";
  return dtype == DType::kI64 ? "int64_t" : "int32_t";
}

Expr Operand::count(int from, int to) const {
  Expr product = Expr::constant(1);
  for (int axis = from; axis < to; ++axis) product = product * shape.at(static_cast<std::size_t>(axis));
  return product;
}

std::string Operand::at(std::string_view index) const {
  return by_value ? name : name + "[" + std::string(index) + "]";
}

Expr Site::expression(std::string_view name, const Expr& fallback) const {
  const Result<Expr> value = attrs.expression(name, fallback);
  assert(value.ok());
  return *value;
}

std::size_t Site::axis(std::string_view name, std::int64_t fallback, int rank) const {
  const auto axis = expression(name, Expr::constant(fallback)).evaluate({});
  assert(axis.ok());
  return static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis);
}

std::vector<std::int64_t> Site::integers(std::string_view name, std::size_t count,
                                         std::int64_t fallback) const {
  const auto list = attrs.expressions(name, {Expr::constant(fallback)});
  assert(list.ok());
  std::vector<std::int64_t> values;
  for (const Expr& expr : *list) values.push_back(*expr.evaluate({}));
  if (values.size() == 1) values.resize(count, values.front());
  return values;
}

bool is_one(const Expr& extent) { return extent.is_constant() && extent.to_string() == "1"; }

std::string factor(const Expr& expr) {
  const std::string text = expr.to_string();
  const bool simple =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return simple ? text : "(" + text + ")";
}

std::string position(const std::vector<Expr>& shape, const std::vector<std::string>& indices) {
  assert(shape.size() == indices.size());
  std::string text;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool sum = text.find(" + ") != std::string::npos;
    if (!text.empty() && !is_one(shape[axis]))
      text = (sum ? "(" + text + ")" : text) + " * " + factor(shape[axis]);
    if (indices[axis] != "0") text += (text.empty() ? "" : " + ") + indices[axis];
  }
  return text.empty() ? "0" : text;
}

std::string broadcast_position(const Operand& operand, const std::vector<std::string>& indices) {
  std::vector<std::string> own(indices.end() - operand.rank(), indices.end());
  for (std::size_t axis = 0; axis < own.size(); ++axis)
    if (is_one(operand.shape[axis])) own[axis] = "0";
  return position(operand.shape, own);
}

std::vector<std::string> index_names(int count) {
  std::vector<std::string> names;
  for (int axis = 0; axis < count; ++axis) names.push_back("i" + std::to_string(axis));
  return names;
}

std::string unflatten(std::string_view number, const std::vector<Expr>& shape,
                      const std::vector<std::string>& names) {
  std::string code;
  Expr inner = Expr::constant(1);
  for (std::size_t axis = shape.size(); axis-- > 0; inner = inner * shape[axis]) {
    std::string value(number);
    if (!is_one(inner)) value += " / " + factor(inner);
    if (axis > 0) value += " % " + factor(shape[axis]);
    code = "const int64_t " + names[axis] + " = " + value + ";\n" + code;
  }
  return code;
}

std::string loop(const std::string& index, const Expr& extent, const std::string& body) {
  return expand("for (int64_t $i = 0; $i < $n; ++$i) {\n  $body\n}\n",
                {{"i", index}, {"n", extent.to_string()}, {"body", body}});
}

bool needs_parts(const Site& site, const Expr& terms) {
  const auto most = terms.evaluate(site.largest);
  return !most.ok() || *most > kSerialTerms;
}

std::string sum_in_parts(const std::string& index, const Expr& extent, const std::string& body) {
  return expand(
      R"(
for (int64_t block = 0; block < $n; block += $part) {
  const auto before = sum;
  sum = 0;
  for (int64_t $i = block; $i < $n && $i < block + $part; ++$i) {
    $body
  }
  sum += before;
}
)",
      {{"i", index}, {"n", factor(extent)}, {"part", std::to_string(kSerialTerms)}, {"body", body}});
}

std::string sum_loop(const Site& site, const std::string& index, const Expr& extent,
                     const std::string& body) {
  return needs_parts(site, extent) ? sum_in_parts(index, extent, body) : loop(index, extent, body);
}

std::string in_parts(const RowProduct& product, int strip) {
  return expand(R"(
for (int64_t strip = 0; strip < $n; strip += $strip) {
  const int64_t end = $n - strip < $strip ? $n : strip + $strip;
  $type sums[$strip] = {};
  for (int64_t block = 0; block < $depth; block += $part) {
    $type parts[$strip] = {};
    for (int64_t k = block; k < $depth && k < block + $part; ++k) {
      const $type left = $left;
      for (int64_t j = strip; j < end; ++j) parts[j - strip] += left * $right;
    }
    for (int64_t j = strip; j < end; ++j) sums[j - strip] += parts[j - strip];
  }
  for (int64_t j = strip; j < end; ++j) $out = sums[j - strip];
}
)",
                {{"type", product.type},
                 {"n", product.columns},
                 {"depth", product.depth},
                 {"left", product.left},
                 {"right", product.right},
                 {"out", product.out},
                 {"strip", std::to_string(strip)},
                 {"part", std::to_string(kSerialTerms)}});
}

Parts parts_of(const Site& site, const Expr& terms) {
  if (!needs_parts(site, terms)) return {};
  return {site.out.compute_type() + " total = 0;\nint64_t terms = 0;\n",
          expand("if (++terms == $part) {\n  terms = 0;\n  total += sum;\n  sum = 0;\n}\n",
                 {{"part", std::to_string(kSerialTerms)}}),
          "sum += total;\n"};
}

std::string Lines::at(std::string_view index) const {
  return index == "0" ? "base" : "base + " + std::string(index) + stride;
}

Lines lines_along(const Operand& operand, std::size_t first_axis, std::size_t last_axis) {
  const int first = static_cast<int>(first_axis);
  const int behind = static_cast<int>(last_axis) + 1;
  const Expr length = operand.count(first, behind);
  const Expr inner = operand.count(behind, operand.rank());
  if (is_one(inner))
    return {operand.count(0, first), length, "const int64_t base = item * " + factor(length) + ";\n", ""};
  return {operand.count(0, first) * inner, length,
          expand("const int64_t base = item / $inner * $length * $inner + item % $inner;\n",
                 {{"length", factor(length)}, {"inner", factor(inner)}}),
          " * " + factor(inner)};
}

std::string literal(double value) {
  if (std::isinf(value)) return value < 0 ? "-__builtin_inff()" : "__builtin_inff()";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text + "f";
}

}  // namespace lathe::naive
