#include <algorithm>
#include <array>

#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// A tensor around one axis: [outer, extent, inner].
struct Around {
  Expr outer, extent, inner;
};

Around around(const std::vector<Expr>& shape, int axis) {
  const auto at = static_cast<std::size_t>(axis);
  return {product(std::span(shape).first(at)), shape[at], product(std::span(shape).subspan(at + 1))};
}

void account(const Site& site) {
  Work work;
  for (const std::string& operand : site.node(0).in)
    work.bytes += 4 * headline_count(site.program.graph(), site.graph().type_of(operand).shape);
  work.bytes += 4 * headline_count(site.program.graph(), site.node(0).type.shape);
  site.program.add_work(work);
}

const std::vector<Expr>& shape_of(const Site& site, std::size_t input) {
  return site.graph().type_of(site.node(0).in[input]).shape;
}

/// Each row of the output in one go, from a row of every input.
void emit_concat(const Site& site) {
  const Primitive& node = site.node(0);
  const Around to = around(node.type.shape, node.axes[0]);
  const std::string copy = row_copier(site);
  std::string code =
      "for (int64_t item = begin; item < end; ++item) {\nfloat* row = " + site.program.parameter(node.out) +
      " + item * " + factor(to.extent * to.inner) + ";\n";
  Expr offset = Expr::constant(0);
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const Around from = around(shape_of(site, i), node.axes[0]);
    const Expr row = from.extent * from.inner;
    code += copy + "(row + " + factor(offset) + ", " + site.program.parameter(node.in[i]) + " + item * " +
            factor(row) + ", " + row.to_string() + ");\n";
    offset = offset + row;
  }
  site.program.launch(site.prefix + "_concat", to.outer, {site.program.buffer(node.out)}, code + "}\n");
}

/// Rows of the output around the axis, each copied from its place in the input.
void emit_rows(const Site& site) {
  const Primitive& node = site.node(0);
  const Around from = around(shape_of(site, 0), node.axes[0]), to = around(node.type.shape, node.axes[0]);
  const std::string x = site.program.parameter(node.in[0]), y = site.program.parameter(node.out);
  const std::string to_row = factor(to.extent * to.inner), from_row = factor(from.extent * from.inner);
  std::string code = "for (int64_t item = begin; item < end; ++item) {\n";
  if (node.how == "slice") {
    code += row_copier(site) + "(" + y + " + item * " + to_row + ", " + x + " + item * " + from_row + " + " +
            factor(node.offsets[0] * from.inner) + ", " + to_row + ");\n";
  } else if (node.how == "pad") {
    const std::string before = factor(node.offsets[0] * from.inner);
    const std::string fill = "static_cast<float>(" + std::to_string(node.fill) + ")";
    code += "float* row = " + y + " + item * " + to_row + ";\nfill_row(row, " + fill + ", " + before +
            ");\ncopy_row(row + " + before + ", " + x + " + item * " + from_row + ", " + from_row +
            ");\nfill_row(row + " + before + " + " + from_row + ", " + fill + ", " + to_row + " - " + before +
            " - " + from_row + ");\n";
  } else if (is_one(to.inner)) {
    code += "for (int64_t j = 0; j < " + to_row + "; ++j) " + y + "[item * " + to_row + " + j] = " + x +
            "[item * " + to_row + " + " + to_row + " - 1 - j];\n";
  } else {
    code += "for (int64_t j = 0; j < " + to.extent.to_string() + "; ++j)\ncopy_row(" + y + " + item * " +
            to_row + " + j * " + factor(to.inner) + ", " + x + " + item * " + to_row + " + (" +
            to.extent.to_string() + " - 1 - j) * " + factor(to.inner) + ", " + to.inner.to_string() + ");\n";
  }
  site.program.launch(site.prefix + "_" + node.how, to.outer, {site.program.buffer(node.out)}, code + "}\n");
}

void emit_gather(const Site& site) {
  const Primitive& node = site.node(0);
  const Around table = around(shape_of(site, 0), node.axes[0]);
  const Expr count = product(shape_of(site, 1));
  const std::string inner = factor(table.inner), rows = factor(table.extent), indices = factor(count);
  const bool flat = is_one(table.outer);
  const std::string number = flat ? "item" : "item % " + indices;
  const std::string first = flat ? "at" : "(item / " + indices + " * " + rows + " + at)";
  const std::string distance = site.program.cuda() ? "0" : std::to_string(site.knob("ahead", {0, 4, 16}, 0));
  std::string ahead;
  if (flat && distance != "0")
    ahead = "if (item + " + distance + " < end) prefetch_row(" + site.program.parameter(node.in[0]) + " + " +
            site.program.parameter(node.in[1]) + "[item + " + distance + "] * " + inner + ", " + inner +
            ");\n";
  const std::string code =
      "for (int64_t item = begin; item < end; ++item) {\nconst int64_t at = static_cast<int64_t>(" +
      site.program.parameter(node.in[1]) + "[" + number +
      "]);\nfloat* to = " + site.program.parameter(node.out) + " + item * " + inner + ";\n" + ahead +
      "if (at >= 0 && at < " + rows + ") {\n" + row_copier(site) + "(to, " +
      site.program.parameter(node.in[0]) + " + " + first + " * " + inner + ", " + inner +
      ");\n} else {\nfill_row(to, __builtin_nanf(\"\"), " + inner + ");\n}\n}\n";
  site.program.launch(site.prefix + "_gather", table.outer * count, {site.program.buffer(node.out)}, code);
}

}  // namespace

std::string row_copier(const Site& site) {
  if (site.program.cuda()) return "copy_row";
  static const std::array<std::string, 3> names = {"copy_row", "copy_row_by_library", "copy_row_past_cache"};
  return names[static_cast<std::size_t>(site.knob("copy", {0, 1, 2}, 0))];
}

Status emit_move(const Site& site) {
  const std::string& how = site.node(0).how;
  site.program.add_pattern("move");
  account(site);
  if (how == "concat") {
    emit_concat(site);
  } else if (how == "gather") {
    emit_gather(site);
  } else {
    emit_rows(site);
  }
  return Ok{};
}

/// Running sums: along rows by a prefix inside each vector, along columns lane by lane.
Status emit_scan(const Site& site) {
  const Primitive& node = site.node(0);
  const Around a = around(node.type.shape, node.axes[0]);
  const bool sum = node.how == "sum";
  const std::string x = site.program.parameter(node.in[0]), y = site.program.parameter(node.out);
  const std::string n = factor(a.extent), inner = factor(a.inner), join = sum ? " + " : " * ";
  const std::string start = sum ? "0.0f" : "1.0f", prefix = sum ? "prefix_sum" : "prefix_product";
  site.program.add_pattern("scan");
  account(site);
  std::string code;
  Expr items = a.outer;
  if (is_one(a.inner)) {
    const std::string one = " + item * " + n + " + j";
    code = "for (int64_t item = begin; item < end; ++item) {\nf32v carry(" + start +
           ");\nint64_t j = 0;\nfor (; j + kLanes <= " + n + "; j += kLanes) {\nconst f32v t = " + prefix +
           "(load(" + x + one + "));\nstore(" + y + one + ", t" + join +
           "carry);\ncarry = broadcast_last(t)" + join + "carry;\n}\nif (j < " + n +
           ") {\nconst maskv lanes = first_lanes(" + n + " - j);\nstore(" + y + one + ", " + prefix +
           "(load(" + x + one + ", lanes))" + join + "carry, lanes);\n}\n}\n";
  } else {
    const int vectors = site.knob("unroll", {1, 2, 4, 8}, 4);
    items = items * Expr::apply("cdiv", a.inner, Expr::constant(site.program.block_floats(vectors)));
    code = "constexpr int64_t kBlock = " + std::to_string(site.program.block_floats(vectors)) +
           ";\nfor (int64_t item = begin; item < end; ++item) {\nconst int64_t outer = item / cdiv(" + inner +
           ", kBlock), j0 = item % cdiv(" + inner + ", kBlock) * kBlock;\nf32v carry[kBlock / kLanes];\n" +
           "for (f32v& c : carry) c = f32v(" + start + ");\nfor (int64_t i = 0; i < " + n +
           "; ++i) {\n#pragma GCC unroll 16\nfor (int u = 0; u < kBlock / kLanes; ++u) {\n" +
           "const int64_t j = j0 + u * kLanes;\nconst maskv lanes = first_lanes(" + inner +
           " - j);\nconst int64_t at = (outer * " + n + " + i) * " + inner + " + j;\ncarry[u] = carry[u]" +
           join + "load(" + x + " + at, lanes);\nstore(" + y + " + at, carry[u], lanes);\n}\n}\n}\n";
  }
  site.program.launch(site.prefix + "_scan", items, {site.program.buffer(node.out)}, code);
  return Ok{};
}

}  // namespace lathe::catalog
