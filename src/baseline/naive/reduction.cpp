#include <algorithm>
#include <array>

#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// A reduction as C: $acc is the running value, $x an element, $n the number of elements.
struct Formula {
  std::string_view op;
  std::string_view start;
  std::string_view step;
  std::string_view finish;
};

constexpr std::array kFormulas = {
    Formula{"sum", "0", "$acc += $x;", "$acc"},
    Formula{"mean", "0", "$acc += $x;", "$acc / $n"},
    Formula{"prod", "1", "$acc *= $x;", "$acc"},
    Formula{"l1_norm", "0", "$acc += $x < 0 ? -$x : $x;", "$acc"},
    Formula{"norm", "0", "$acc += $x * $x;", "lathe::sqrt($acc)"},
    Formula{"reduce_max", "$lowest", "$acc = $x > $acc || $x != $x ? $x : $acc;", "$acc"},
    Formula{"reduce_min", "$highest", "$acc = $x < $acc || $x != $x ? $x : $acc;", "$acc"},
};

const Formula& formula_of(const Site& site) {
  return *std::find_if(kFormulas.begin(), kFormulas.end(),
                       [&](const Formula& formula) { return formula.op == site.op.name(); });
}

std::vector<bool> reduced_axes(const Site& site) {
  const auto rank = static_cast<std::size_t>(site.in[0].rank());
  const bool one = site.attrs.has("axis");
  if (!one && !site.attrs.has("axes")) return std::vector<bool>(rank, true);
  std::vector<bool> reduced(rank, false);
  for (std::int64_t axis : site.integers(one ? "axis" : "axes", 1, 0))
    reduced[static_cast<std::size_t>(axis < 0 ? axis + site.in[0].rank() : axis)] = true;
  return reduced;
}

/// Loops over the reduced axes from outside in.
struct Loops {
  Expr items = Expr::constant(1);
  Expr length = Expr::constant(1);  ///< elements that one result combines
  Expr inner = Expr::constant(1);   ///< results of one item side by side, numbered by `j`
  std::string begin;                ///< declares the indices of the kept axes
  std::string open;
  std::string close;
  std::string element;  ///< the input inside the loops

  bool side_by_side() const { return !is_one(inner); }
};

/// Kept axes behind the last reduced one are `inner` if `group_inner`, else part of the items.
Loops loops_of(const Site& site, bool group_inner) {
  const Operand& x = site.in[0];
  const std::vector<bool> reduced = reduced_axes(site);
  const auto last = std::find(reduced.rbegin(), reduced.rend(), true);
  const auto behind = group_inner ? static_cast<std::size_t>(last.base() - reduced.begin()) : reduced.size();
  Loops loops;
  std::vector<Expr> items;
  std::vector<std::string> item_indices;
  const std::vector<std::string> names = index_names(x.rank());
  for (std::size_t axis = 0; axis < behind; ++axis) {
    if (reduced[axis]) {
      loops.length = loops.length * x.shape[axis];
      loops.open += fill("for (int64_t $i = 0; $i < $n; ++$i) {\n",
                         {{"i", names[axis]}, {"n", x.shape[axis].to_string()}});
      loops.close += "}\n";
    } else {
      items.push_back(x.shape[axis]);
      item_indices.push_back(names[axis]);
      loops.items = loops.items * x.shape[axis];
    }
  }
  loops.begin = unflatten("item", items, item_indices);
  std::vector<Expr> shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(behind));
  std::vector<std::string> indices(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(behind));
  loops.inner = x.count(static_cast<int>(behind), x.rank());
  if (loops.side_by_side()) {
    shape.push_back(loops.inner);
    indices.push_back("j");
  }
  loops.element = x.at(position(shape, indices));
  return loops;
}

Fields fields_of(const Site& site, const Loops& loops) {
  const std::string type = site.out.compute_type();
  const bool is_float = info(site.out.dtype).is_float;
  const std::string bits = type == "int64_t" ? "INT64" : "INT32";
  return {{"begin", loops.begin},
          {"open", loops.open},
          {"close", loops.close},
          {"inner", loops.inner.to_string()},
          {"x", loops.element},
          {"n", factor(loops.length)},
          {"type", type},
          {"out", site.out.at("item")},
          {"lowest", is_float ? "-__builtin_inff()" : bits + "_MIN"},
          {"highest", is_float ? "__builtin_inff()" : bits + "_MAX"}};
}

}  // namespace

/// Over the last axes: one result an item, in a scalar. Otherwise the results of one item lie side by side,
/// and the innermost loop runs over them.
LoopNest emit_reduction(const Site& site) {
  const Formula& formula = formula_of(site);
  const bool accumulates_in_place = site.out.c_type() == site.out.compute_type();
  const Loops loops = loops_of(site, accumulates_in_place);
  Fields fields = fields_of(site, loops);
  fields.emplace_back("acc",
                      loops.side_by_side() ? site.out.at("item * " + factor(loops.inner) + " + j") : "sum");
  fields.emplace_back("start", fill(formula.start, fields));
  fields.emplace_back("step", fill(formula.step, fields));
  fields.emplace_back("finish", fill(formula.finish, fields));
  if (!loops.side_by_side())
    return {loops.items, fill("$begin$type sum = $start;\n$open$step\n$close$out = $finish;\n", fields)};
  std::string body = fill(R"(${begin}for (int64_t j = 0; j < $inner; ++j) $acc = $start;
${open}for (int64_t j = 0; j < $inner; ++j) $step
$close)",
                          fields);
  if (formula.finish != "$acc")
    body += fill("for (int64_t j = 0; j < $inner; ++j) $acc = $finish;\n", fields);
  return {loops.items, body};
}

LoopNest emit_logsumexp(const Site& site) {
  const Loops loops = loops_of(site, false);
  return {loops.items, fill(R"($begin$type peak = $lowest;
${open}peak = $x > peak ? $x : peak;
$close$type sum = 0;
${open}sum += lathe::exp($x - peak);
$close$out = peak + lathe::log(sum);
)",
                            fields_of(site, loops))};
}

LoopNest emit_variance(const Site& site) {
  const Loops loops = loops_of(site, false);
  Fields fields = fields_of(site, loops);
  fields.emplace_back("divisor", site.attrs.flag("unbiased", false) ? "(" + factor(loops.length) + " - 1)"
                                                                    : factor(loops.length));
  fields.emplace_back(
      "value", fill(site.op.name() == "std" ? "lathe::sqrt(sum / $divisor)" : "sum / $divisor", fields));
  return {loops.items, fill(R"($begin$type sum = 0;
${open}sum += $x;
${close}const $type mean = sum / $n;
sum = 0;
${open}sum += ($x - mean) * ($x - mean);
$close$out = $value;
)",
                            fields)};
}

LoopNest emit_arg_extremum(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.in[0].rank());
  const Lines lines = lines_along(site.in[0], axis, axis);
  return {lines.count, fill(R"(${begin}int64_t best = 0;
for (int64_t i = 1; i < $n; ++i) best = $x $order $current ? i : best;
$out = best;
)",
                            {{"begin", lines.begin},
                             {"n", lines.length.to_string()},
                             {"x", site.in[0].at(lines.at("i"))},
                             {"current", site.in[0].at(lines.at("best"))},
                             {"order", site.op.name() == "argmax" ? ">" : "<"},
                             {"out", site.out.at("item")}})};
}

}  // namespace lathe::naive
