#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

std::vector<int> reduced_axes(const Lowering& to) {
  const int rank = to.rank(to.node().in[0]);
  std::vector<std::int64_t> given;
  if (to.attrs().has("axis")) given = {to.attrs().integer("axis", -1)};
  if (to.attrs().has("axes")) given = to.attrs().integers("axes", {});
  std::vector<int> axes;
  for (const std::int64_t axis : given) axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  if (given.empty()) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  return axes;
}

std::string reciprocal_count(const Lowering& to, const std::string& value, const std::vector<int>& axes) {
  std::vector<Expr> extents;
  for (const int axis : axes) extents.push_back(to.shape(value)[static_cast<std::size_t>(axis)]);
  return Lowering::reciprocal_count(extents);
}

void lower_variance(Lowering& to, const std::vector<int>& axes, bool keep, bool root) {
  const std::string& x = to.node().in[0];
  const std::string scale = " * " + reciprocal_count(to, x, axes);
  const std::string mean = to.apply("{0}" + scale, {to.reduce("sum", x, axes, true)});
  const std::string centred = to.apply("{0} - {1}", {x, mean});
  const std::string squares = to.apply("{0} * {0}", {centred});
  std::string divisor = scale;
  if (to.attrs().flag("unbiased", false)) {
    std::vector<Expr> extents;
    for (const int axis : axes) extents.push_back(to.shape(x)[static_cast<std::size_t>(axis)]);
    divisor = " / static_cast<float>(" + (product(extents) - Expr::constant(1)).to_string() + ")";
  }
  const std::string variance = "{0}" + divisor;
  to.apply(root ? "lathe::sqrt(" + variance + ")" : variance, {to.reduce("sum", squares, axes, keep)}, true);
}

void lower_logsumexp(Lowering& to, const std::vector<int>& axes, bool keep) {
  const std::string& x = to.node().in[0];
  const std::string top = to.reduce("max", x, axes, true);
  const std::string total = to.reduce("sum", to.apply("lathe::exp({0} - {1})", {x, top}), axes, true);
  const std::string result = to.apply("{1} + lathe::log({0})", {total, top}, keep);
  if (!keep) to.view(result, to.node().type.shape, true);
}

void lower_cosine_similarity(Lowering& to, bool keep) {
  const std::string &a = to.node().in[0], &b = to.node().in[1];
  const std::vector<int> axis = {to.axis("axis", -1)};
  const auto sum = [&](const std::string& x, const std::string& y) {
    return to.reduce("sum", to.apply("{0} * {1}", {x, y}), axis, keep);
  };
  const std::string products = sum(a, b), first = sum(a, a), second = sum(b, b);
  const std::string eps = float_text(to.attrs().real("eps", 1e-8));
  to.apply("{0} / (lathe::max(lathe::sqrt({1}), " + eps + ") * lathe::max(lathe::sqrt({2}), " + eps + "))",
           {products, first, second}, true);
}

}  // namespace

bool lower_reduction(Lowering& to) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kDirect = {{
      {"sum", "sum"},
      {"reduce_max", "max"},
      {"reduce_min", "min"},
      {"prod", "prod"},
      {"argmax", "argmax"},
      {"argmin", "argmin"},
  }};
  const std::string& op = to.node().op_name;
  const bool keep = to.attrs().flag("keepdims", false);
  const auto axes = [&] { return reduced_axes(to); };
  const std::string& x = to.node().in[0];
  for (const auto& [name, how] : kDirect) {
    if (op != name) continue;
    const bool index = how.starts_with("arg");
    const std::vector<int> over = index ? std::vector<int>{to.axis("axis", -1)} : axes();
    if (index && is_one(to.shape(x)[static_cast<std::size_t>(over.front())])) {  // nothing to compare
      const std::string first = to.apply("0.0f * {1}", {x, to.iota(Expr::constant(1), 0)}, keep);
      if (!keep) to.view(first, to.node().type.shape, true);
    } else {
      to.reduce(std::string(how), x, over, keep, true);
    }
    return true;
  }
  if (op == "any" || op == "all") {
    const std::string how = op == "any" ? "max" : "min";
    to.apply("{0}", {to.reduce(how, to.apply("{0}", {x}), axes(), keep)}, true);
  } else if (op == "mean") {
    const std::vector<int> over = axes();
    to.apply("{0} * " + reciprocal_count(to, x, over), {to.reduce("sum", x, over, keep)}, true);
  } else if (op == "var" || op == "std") {
    lower_variance(to, axes(), keep, op == "std");
  } else if (op == "logsumexp") {
    lower_logsumexp(to, axes(), keep);
  } else if (op == "cosine_similarity") {
    lower_cosine_similarity(to, keep);
  } else if (op == "norm") {
    const std::string squares = to.apply("{0} * {0}", {x});
    to.apply("lathe::sqrt({0})", {to.reduce("sum", squares, axes(), keep)}, true);
  } else if (op == "l1_norm") {
    to.reduce("sum", to.apply("lathe::abs({0})", {x}), axes(), keep, true);
  } else {
    return false;
  }
  return true;
}

}  // namespace lathe::catalog
