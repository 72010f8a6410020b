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
  bool adds = false;  ///< a long sum needs parts
};

constexpr std::array kFormulas = {
    Formula{"sum", "0", "$acc += $x;", "$acc", true},
    Formula{"mean", "0", "$acc += $x;", "$acc / $n", true},
    Formula{"prod", "1", "$acc *= $x;", "$acc"},
    Formula{"l1_norm", "0", "$acc += $x < 0 ? -$x : $x;", "$acc", true},
    Formula{"norm", "0", "$acc += $x * $x;", "lathe::sqrt($acc)", true},
    Formula{"reduce_max", "$lowest", "$acc = $x > $acc || $x != $x ? $x : $acc;", "$acc"},
    Formula{"reduce_min", "$highest", "$acc = $x < $acc || $x != $x ? $x : $acc;", "$acc"},
    Formula{"any", "0", "$acc |= $x != 0;", "$acc"},
    Formula{"all", "1", "$acc &= $x != 0;", "$acc"},
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
  std::vector<std::pair<std::string, Expr>> reduced;
  std::string element;  ///< the input inside the loops

  bool side_by_side() const { return !is_one(inner); }
  std::string around(std::string body, std::size_t axes) const {
    while (axes-- > 0) body = loop(reduced[axes].first, reduced[axes].second, body);
    return body;
  }
  std::string around(const std::string& body) const { return around(body, reduced.size()); }
  /// `body` adds to `sum`.
  std::string sum(const Site& site, const std::string& body) const {
    if (reduced.size() == 1) return sum_loop(site, reduced[0].first, reduced[0].second, body);
    const Parts parts = parts_of(site, length);
    return parts.before + around(body + parts.step) + parts.behind;
  }
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
      loops.reduced.emplace_back(names[axis], x.shape[axis]);
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

Holes fields_of(const Site& site, const Loops& loops) {
  const std::string type = site.out.compute_type();
  const bool is_float = info(site.out.dtype).is_float;
  const std::string bits = type == "int64_t" ? "INT64" : "INT32";
  return {{"begin", loops.begin},
          {"inner", loops.inner.to_string()},
          {"x", loops.element},
          {"n", factor(loops.length)},
          {"type", type},
          {"out", site.out.at("item")},
          {"lowest", is_float ? "-__builtin_inff()" : bits + "_MIN"},
          {"highest", is_float ? "__builtin_inff()" : bits + "_MAX"}};
}

/// A formula's part with its running value.
std::string with_accumulator(std::string_view pattern, Holes fields, const std::string& accumulator) {
  fields.emplace_back("acc", accumulator);
  return expand(pattern, {}, fields);
}

/// Sums side by side that need parts: a strip of results at a time, whose sums and parts are local.
std::string sum_strips(const Site& site, const Loops& loops, Holes fields, const Formula& formula) {
  fields.emplace_back("part", std::to_string(kSerialTerms));
  fields.emplace_back("type", site.out.compute_type());
  fields.emplace_back("step", with_accumulator(formula.step, fields, "parts[k]"));
  fields.emplace_back("add_values", loops.around(expand(R"(
for (int64_t k = 0; k < width; ++k) {
  const int64_t j = strip + k;
  $step
}
if (++terms == $part) {
  terms = 0;
  for (int64_t k = 0; k < width; ++k) sums[k] += parts[k], parts[k] = 0;
}
)",
                                                        {}, fields)));
  fields.emplace_back("result", site.out.at("item * " + factor(loops.inner) + " + strip + k"));
  fields.emplace_back("finish", with_accumulator(formula.finish, fields, "sums[k]"));
  return expand(R"(
$begin
for (int64_t strip = 0; strip < $inner; strip += 64) {
  const int64_t width = $inner - strip < 64 ? $inner - strip : 64;
  $type sums[64] = {}, parts[64] = {};
  int64_t terms = 0;
  $add_values
  for (int64_t k = 0; k < width; ++k) {
    sums[k] += parts[k];
    $result = $finish;
  }
}
)",
                {}, fields);
}

}  // namespace

/// Over the last axes: one result an item, in a scalar. Otherwise the results of one item lie side
/// by side, and the innermost loop runs over them.
LoopNest emit_reduction(const Site& site) {
  const Formula& formula = formula_of(site);
  const bool accumulates_in_place = site.out.c_type() == site.out.compute_type();
  const Loops loops = loops_of(site, accumulates_in_place);
  Holes fields = fields_of(site, loops);
  if (loops.side_by_side() && formula.adds && needs_parts(site, loops.length))
    return {loops.items, sum_strips(site, loops, fields, formula)};
  const std::string result =
      loops.side_by_side() ? site.out.at("item * " + factor(loops.inner) + " + j") : "sum";
  const auto with = [&](std::string_view pattern, const std::string& accumulator) {
    return with_accumulator(pattern, fields, accumulator);
  };
  fields.emplace_back("start", with(formula.start, result));
  fields.emplace_back("finish", with(formula.finish, result));
  if (!loops.side_by_side()) {
    const std::string step = with(formula.step, "sum") + "\n";
    fields.emplace_back("loops", formula.adds ? loops.sum(site, step) : loops.around(step));
    return {loops.items, expand("$begin\n$type sum = $start;\n$loops\n$out = $finish;\n", {}, fields)};
  }
  const auto for_each_result = [&](const std::string& step) { return loop("j", loops.inner, step + "\n"); };
  std::string body = loops.begin + for_each_result(with("$acc = $start;", result)) +
                     loops.around(for_each_result(with(formula.step, result)));
  if (formula.finish != "$acc") body += for_each_result(with("$acc = $finish;", result));
  return {loops.items, body};
}

LoopNest emit_logsumexp(const Site& site) {
  const Loops loops = loops_of(site, false);
  Holes fields = fields_of(site, loops);
  fields.emplace_back("find_peak", loops.around(expand("peak = $x > peak ? $x : peak;\n", {}, fields)));
  fields.emplace_back("add_exponentials",
                      loops.sum(site, expand("sum += lathe::exp($x - peak);\n", {}, fields)));
  return {loops.items, expand(R"(
$begin
$type peak = $lowest;
$find_peak
$type sum = 0;
$add_exponentials
$out = peak + lathe::log(sum);
)",
                              {}, fields)};
}

LoopNest emit_variance(const Site& site) {
  const Loops loops = loops_of(site, false);
  Holes fields = fields_of(site, loops);
  fields.emplace_back("divisor", site.attrs.flag("unbiased", false) ? "(" + factor(loops.length) + " - 1)"
                                                                    : factor(loops.length));
  fields.emplace_back(
      "value",
      expand(site.op.name() == "std" ? "lathe::sqrt(sum / $divisor)" : "sum / $divisor", {}, fields));
  fields.emplace_back("add_values", loops.sum(site, expand("sum += $x;\n", {}, fields)));
  fields.emplace_back("add_deviations",
                      loops.sum(site, expand("sum += ($x - mean) * ($x - mean);\n", {}, fields)));
  return {loops.items, expand(R"(
$begin
$type sum = 0;
{
  $add_values
}
const $type mean = sum / $n;
sum = 0;
{
  $add_deviations
}
$out = $value;
)",
                              {}, fields)};
}

LoopNest emit_cosine_similarity(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.in[0].rank());
  const Lines lines = lines_along(site.in[0], axis, axis);
  const std::string type = site.out.compute_type();
  const auto product = [&](std::size_t a, std::size_t b) {
    const auto value = [&](std::size_t input) { return site.in[input].at(lines.at("i")); };
    return sum_loop(site, "i", lines.length, "sum += " + value(a) + " * " + value(b) + ";\n");
  };
  return {lines.count, expand(R"(
$begin
$type sum = 0;
{
  $first
}
const $type first = lathe::max(lathe::sqrt(sum), $eps);
sum = 0;
{
  $second
}
const $type second = lathe::max(lathe::sqrt(sum), $eps);
sum = 0;
{
  $both
}
$out = sum / (first * second);
)",
                              {{"begin", lines.begin},
                               {"type", type},
                               {"first", product(0, 0)},
                               {"second", product(1, 1)},
                               {"both", product(0, 1)},
                               {"eps", literal(site.attrs.real("eps", 1e-8))},
                               {"out", site.out.at("item")}})};
}

LoopNest emit_arg_extremum(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.in[0].rank());
  const Lines lines = lines_along(site.in[0], axis, axis);
  return {lines.count, expand(R"(
$begin
int64_t best = 0;
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
