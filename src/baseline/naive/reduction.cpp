#include <algorithm>
#include <array>

#include "baseline/naive/nest.h"

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
    Formula{"sum", "0", "$acc += $x;", ""},
    Formula{"mean", "0", "$acc += $x;", "$acc / $n"},
};

const Formula& formula_of(const Site& site) {
  return *std::find_if(kFormulas.begin(), kFormulas.end(),
                       [&](const Formula& formula) { return formula.op == site.op.name(); });
}

std::vector<bool> reduced_axes(const Site& site) {
  const auto rank = static_cast<std::size_t>(site.in[0].rank());
  if (!site.attrs.has("axis") && !site.attrs.has("axes")) return std::vector<bool>(rank, true);
  std::vector<bool> reduced(rank, false);
  for (std::int64_t axis : site.attrs.integers(site.attrs.has("axis") ? "axis" : "axes", {}))
    reduced[static_cast<std::size_t>(axis < 0 ? axis + site.in[0].rank() : axis)] = true;
  return reduced;
}

}  // namespace

ReductionLoops reduction_loops(const Site& site) {
  const Operand& x = site.in[0];
  const std::vector<bool> reduced = reduced_axes(site);
  ReductionLoops loops;
  std::vector<Expr> shape, items;
  std::vector<std::string> indices, item_indices;
  const auto behind =
      static_cast<std::size_t>(std::find(reduced.rbegin(), reduced.rend(), true).base() - reduced.begin());
  const std::vector<std::string> names = index_names(x.rank());
  for (std::size_t axis = 0; axis < behind; ++axis) {
    shape.push_back(x.shape[axis]);
    indices.push_back(names[axis]);
    if (reduced[axis]) {
      loops.length = loops.length * x.shape[axis];
      loops.open += fill("for (int64_t $i = 0; $i < $n; ++$i) {\n",
                         {{"i", names[axis]}, {"n", x.shape[axis].to_string()}});
      loops.close += "}\n";
    } else {
      items.push_back(x.shape[axis]);
      item_indices.push_back(names[axis]);
    }
  }
  for (const Expr& extent : items) loops.items = loops.items * extent;
  loops.begin = unflatten("item", items, item_indices);
  loops.inner = x.count(static_cast<int>(behind), x.rank());
  if (!is_one(loops.inner)) {
    shape.push_back(loops.inner);
    indices.push_back("j");
  }
  loops.element = x.at(position(shape, indices));
  return loops;
}

/// Over the last axes: one result an item, in a scalar. Otherwise the results of one item lie side by side,
/// and the innermost loop runs over them.
LoopNest emit_reduction(const Site& site) {
  const Formula& formula = formula_of(site);
  const ReductionLoops loops = reduction_loops(site);
  const bool side_by_side = !is_one(loops.inner);
  const std::string result = side_by_side ? "item * " + factor(loops.inner) + " + j" : "item";
  const std::string accumulator = side_by_side ? site.out.at(result) : "sum";
  Fields fields = {{"begin", loops.begin},      {"open", loops.open},
                   {"close", loops.close},      {"inner", loops.inner.to_string()},
                   {"acc", accumulator},        {"x", loops.element},
                   {"n", factor(loops.length)}, {"type", site.out.compute_type()},
                   {"out", site.out.at(result)}};
  fields.emplace_back("start", fill(formula.start, fields));
  fields.emplace_back("step", fill(formula.step, fields));
  fields.emplace_back("finish", formula.finish.empty() ? accumulator : fill(formula.finish, fields));
  if (!side_by_side)
    return {loops.items, fill("$begin$type $acc = $start;\n$open$step\n$close$out = $finish;\n", fields)};
  std::string body = fill(R"($begin
for (int64_t j = 0; j < $inner; ++j) $acc = $start;
$open
for (int64_t j = 0; j < $inner; ++j) $step
$close)",
                          fields);
  if (!formula.finish.empty()) body += fill("for (int64_t j = 0; j < $inner; ++j) $acc = $finish;\n", fields);
  return {loops.items, body};
}

}  // namespace lathe::naive
