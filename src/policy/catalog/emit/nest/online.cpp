#include <algorithm>

#include "policy/catalog/emit/nest/text.h"
#include "policy/catalog/lower/lowering.h"

// What one pass finds on a GPU though its definition takes two: of rows, the maximum and the sum of
// exp(x - maximum), which is kept for the maximum so far; of columns, the mean and the squared
// deviations from it. And sums with one term that is not zero, which is read without a pass.

namespace lathe::catalog {
namespace {

/// Writes formulas over terms as the lowering did, so that they can be compared.
class Formulas {
 public:
  explicit Formulas(const NestPlan& plan) : plan_(plan) {}

  bool is(int t, std::string_view formula, const Holes& names) const {
    const Term& term = plan_.term(t);
    return term.kind == Term::Kind::kApply && formula_text(plan_.terms, term) == expand(formula, names);
  }
  std::string name(int t) const { return plan_.terms.name(t); }
  bool reduces(int t, std::string_view how) const {
    return plan_.term(t).kind == Term::Kind::kReduce && plan_.term(t).node->how == how;
  }

 private:
  const NestPlan& plan_;
};

/// sum(exp(x - max(x))).
Pair find_softmax(const NestPlan& plan) {
  const Formulas formulas(plan);
  for (int top = 0; top < plan.term_count(); ++top) {
    if (!formulas.reduces(top, "max")) continue;
    const Holes names = {{"x", formulas.name(plan.term(top).operands[0])}, {"top", formulas.name(top)}};
    for (int sum = 0; sum < plan.term_count(); ++sum) {
      if (!formulas.reduces(sum, "sum")) continue;
      const int e = plan.term(sum).operands[0];
      const std::vector<int>& operands = plan.term(e).operands;
      const bool direct = formulas.is(e, "lathe::exp($x - $top)", names);
      const bool in_two = operands.size() == 1 && formulas.is(operands[0], "$x - $top", names) &&
                          formulas.is(e, "lathe::exp($shifted)", {{"shifted", formulas.name(operands[0])}});
      if (direct || in_two) return {top, sum};
    }
  }
  return {};
}

/// sum((x - m)^2) for the mean m of x.
Pair find_moments(const NestPlan& plan) {
  const Formulas formulas(plan);
  std::vector<Expr> reduced;
  for (const Loop& loop : plan.loops)
    if (loop.reduced) reduced.push_back(loop.extent);
  const std::string scale = Lowering::reciprocal_count(reduced);
  for (int sum = 0; sum < plan.term_count(); ++sum) {
    if (!formulas.reduces(sum, "sum")) continue;
    const int square = plan.term(sum).operands[0];
    if (plan.term(square).operands.size() != 1) continue;
    const int centred = plan.term(square).operands[0];
    if (!formulas.is(square, "$d * $d", {{"d", formulas.name(centred)}})) continue;
    if (plan.term(centred).operands.size() != 2) continue;
    const int x = plan.term(centred).operands[0], mean = plan.term(centred).operands[1];
    if (!formulas.is(centred, "$x - $mean", {{"x", formulas.name(x)}, {"mean", formulas.name(mean)}}))
      continue;
    if (plan.term(mean).operands.size() != 1) continue;
    const int total = plan.term(mean).operands[0];
    if (!formulas.reduces(total, "sum") || plan.term(total).operands[0] != x) continue;
    if (!formulas.is(mean, "$total * $scale", {{"total", formulas.name(total)}, {"scale", scale}})) continue;
    return {total, sum};
  }
  return {};
}

/// The passes that find each term, anew.
void set_stages(NestPlan& plan) {
  plan.terms.stages = 1;
  for (int t = 0; t < plan.term_count(); ++t) {
    Term& term = plan.terms.list[static_cast<std::size_t>(t)];
    term.stage = 0;
    for (const int operand : term.operands) term.stage = std::max(term.stage, plan.term(operand).stage);
    if (term.kind == Term::Kind::kReduce) ++term.stage;
    if (t == plan.online.follower) term.stage = plan.term(plan.online.leader).stage;
    if (term.stored) plan.terms.stages = std::max(plan.terms.stages, term.stage + 1);
  }
}

}  // namespace

/// Sums over a row of `select(index == number, x, 0)`.
void choose_picks(const Site& site, NestPlan& plan) {
  if (!site.target.cuda || plan.mode != NestMode::kRows) return;
  if (std::ranges::count_if(plan.loops, [](const Loop& loop) { return loop.reduced; }) > 1) return;
  const Formulas formulas(plan);
  for (int sum = 0; sum < plan.term_count(); ++sum) {
    if (!formulas.reduces(sum, "sum")) continue;
    const int chosen = plan.term(sum).operands[0];
    if (plan.term(chosen).operands.size() != 3) continue;
    const int x = plan.term(chosen).operands[0], index = plan.term(chosen).operands[1],
              number = plan.term(chosen).operands[2];
    if (!formulas.is(
            chosen, "lathe::select(lathe::eq($index, $number), $x, 0.0f * $index)",
            {{"index", formulas.name(index)}, {"number", formulas.name(number)}, {"x", formulas.name(x)}}))
      continue;
    const bool leaf = plan.term(x).kind == Term::Kind::kLeaf && !plan.is_iota(plan.term(x));
    if (!leaf || !NestPlan::lanewise(plan.term(x)) || !plan.is_iota(plan.term(index)) ||
        plan.inner(plan.term(number)))
      continue;
    plan.picks[sum] = {x, number};
    Term& picked = plan.terms.list[static_cast<std::size_t>(sum)];
    picked.kind = Term::Kind::kApply;
    picked.operands = {number};
  }
  if (!plan.picks.empty()) set_stages(plan);
}

void choose_online(const Site& site, NestPlan& plan) {
  if (!site.target.cuda || !site.group.reduces()) return;
  const bool rows = plan.mode == NestMode::kRows;
  const Pair found = rows ? find_softmax(plan) : find_moments(plan);
  if (found.leader < 0) return;
  const int usual = rows && (plan.rows_are_few() || plan.row_vectors() <= kMostKept) ? 0 : 1;
  if (site.knob("online", {0, 1}, usual) == 0) return;
  plan.online = found;
  set_stages(plan);
}

std::string pick(Nest& nest, int t) {
  const NestPlan& plan = nest.plan;
  const auto [x, number] = plan.picks.at(t);
  std::vector<std::string> row = plan.indices;
  row.back().clear();
  const std::string& value = plan.term(x).value;
  return expand("pick($at + $row, $number, $n)",
                {{"at", nest.program.parameter(value)},
                 {"row", element(plan.site.graph, plan.site.group, plan.loops, value, row)},
                 {"number", plan.terms.name(number)},
                 {"n", plan.last_loop().extent.to_string()}});
}

std::string extend_online(const NestPlan& plan, const Scope& scope, const std::string& suffix) {
  const Holes names = {{"top", plan.terms.name(plan.online.leader, 'a') + suffix},
                       {"sum", plan.terms.name(plan.online.follower, 'a') + suffix},
                       {"x", plan.terms.name(plan.term(plan.online.leader).operands[0])}};
  if (plan.columns())
    return expand("extend($top, $x, $counts);\n", {{"counts", scope.rows_exist.empty() ? "true" : "in"}},
                  names);
  return expand("extend_softmax($top, $sum, keep(lanes, $x, -kInfinity));\n", {}, names);
}

std::string finish_online(Nest& nest) {
  const NestPlan& plan = nest.plan;
  const Pair& pair = plan.online;
  const Holes sums = {{"moments", plan.terms.name(pair.leader, 'a')},
                      {"mean", plan.terms.name(pair.leader, 'b')},
                      {"squares", plan.terms.name(pair.follower, 'b')}};
  if (plan.columns())
    return expand(R"(
f32v $mean[kBlock / kLanes], $squares[kBlock / kLanes];
for (int u = 0; u < kBlock / kLanes; ++u) {
  $mean[u] = $moments[u].mean * $moments[u].count;
  $squares[u] = $moments[u].squares;
}
)",
                  sums);
  const Holes names = {{"top", plan.terms.name(pair.leader)},
                       {"sum", plan.terms.name(pair.follower)},
                       {"tops", plan.terms.name(pair.leader, 'a')},
                       {"sums", plan.terms.name(pair.follower, 'a')}};
  std::string code;
  for (int u = 1; u < plan.unroll; ++u)
    code += expand("join_softmax(${tops}_0, ${sums}_0, ${tops}_$u, ${sums}_$u);\n",
                   {{"u", std::to_string(u)}}, names);
  code += expand("const float $top = reduce_max$exchange(${tops}_0);\n", {{"exchange", next_exchange(nest)}},
                 names);
  return code + expand("const float $sum = reduce_add$exchange(${sums}_0 * lathe::exp(${tops}_0 - $top));\n",
                       {{"exchange", next_exchange(nest)}}, names);
}

}  // namespace lathe::catalog
