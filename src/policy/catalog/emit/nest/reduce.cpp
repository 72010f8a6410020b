#include <array>
#include <string_view>

#include "policy/catalog/emit/nest/text.h"

namespace lathe::catalog {
namespace {

/// A reduction as lathe/cpu.h and lathe/cuda.cuh compute it: $a is the running value, $v another.
struct Reduction {
  std::string_view name;
  std::string_view neutral;
  std::string_view combine;
  std::string_view fast_combine;  ///< where a NaN shows elsewhere
  std::string_view horizontal;    ///< of the lanes
};

constexpr std::array kReductions = {
    Reduction{"sum", "0.0f", "$a + $v", "$a + $v", "reduce_add"},
    Reduction{"prod", "1.0f", "$a * $v", "$a * $v", "reduce_mul"},
    Reduction{"max", "-kInfinity", "max($a, $v)", "fast_max($v, $a)", "reduce_max"},
    Reduction{"min", "kInfinity", "min($a, $v)", "fast_min($v, $a)", "reduce_min"},
    Reduction{"argmax", "-kInfinity", "", "", "extremum_index<true>"},
    Reduction{"argmin", "kInfinity", "", "", "extremum_index<false>"},
};

const Reduction& reduction_of(const NestPlan& plan, int t) {
  for (const Reduction& reduction : kReductions)
    if (reduction.name == plan.term(t).node->how) return reduction;
  assert(false);
  return kReductions[0];
}

/// The argument of update_extremum and extremum_index.
std::string largest(const Term& term) { return term.node->how == "argmax" ? "true" : "false"; }

/// The index of the vector under way along the reduced loop.
std::string index_text(const NestPlan& plan) {
  std::string index;
  for (std::size_t l = 0; l < plan.loops.size(); ++l)
    if (plan.loops[l].reduced)
      index =
          plan.exact ? plan.indices[l] : plan.index_type() + "(static_cast<float>(" + plan.indices[l] + "))";
  return plan.mode == NestMode::kRows && !plan.by_value ? index + " + lane_index()" : index;
}

/// Whether a pass reads the result beside what it was found from, so that a NaN is not lost.
bool seen_elsewhere(const NestPlan& plan, int t) {
  for (const Term& user : plan.terms.list)
    if (plan.inner(user) && std::find(user.operands.begin(), user.operands.end(), t) != user.operands.end())
      return true;
  return false;
}

/// Above all indices.
std::string no_index(const NestPlan& plan) { return plan.exact ? "INT64_MAX" : "kInfinity"; }

/// The arrays of a column block, one vector an element.
std::string column_arrays(const NestPlan& plan, int t) {
  if (t == plan.online.leader) return "moments " + plan.terms.name(t, 'a') + "[kBlock / kLanes];\n";
  if (t == plan.online.follower) return {};
  constexpr std::string_view kArray = R"(
$type $name[kBlock / $width];
for ($type& a : $name) a = $type($start);
)";
  const std::string name = plan.terms.name(t, 'a');
  const Holes width = {{"width", plan.width()}};
  std::string code = expand(
      kArray, {{"type", plan.accumulator_type(t)}, {"name", name}, {"start", neutral(plan, t)}}, width);
  if (finds_index(plan.term(t)))
    code += expand(kArray, {{"type", plan.index_type()}, {"name", "x_" + name}, {"start", no_index(plan)}},
                   width);
  return code;
}

}  // namespace

bool finds_index(const Term& term) { return term.node->how.starts_with("arg"); }

std::string neutral(const NestPlan& plan, int t) {
  if (t == plan.online.leader) return "kLowest";
  const std::string start(reduction_of(plan, t).neutral);
  if (!plan.exact) return start;
  if (start == "kInfinity") return "highest<" + plan.accumulator_type(t) + ">()";
  return start == "-kInfinity" ? "lowest<" + plan.accumulator_type(t) + ">()" : start.substr(0, 1);
}

std::string join(const NestPlan& plan, int t, const std::string& a, const std::string& b) {
  return a + " = " + expand(reduction_of(plan, t).combine, {{"a", a}, {"v", b}}) + ";\n";
}

std::string declare_accumulators(const NestPlan& plan, const std::vector<int>& reduces) {
  std::string code;
  for (const int t : reduces) {
    if (plan.columns()) {
      code += column_arrays(plan, t);
      continue;
    }
    const auto declare = [&](const std::string& type, const std::string& name, const std::string& start) {
      for (int u = 0; u < plan.unroll; ++u)
        code += expand("$type ${name}_$u = $type($start);\n",
                       {{"type", type}, {"name", name}, {"u", std::to_string(u)}, {"start", start}});
    };
    declare(plan.accumulator_type(t), plan.terms.name(t, 'a'), neutral(plan, t));
    if (finds_index(plan.term(t))) declare(plan.index_type(), "x_" + plan.terms.name(t, 'a'), no_index(plan));
  }
  return code;
}

std::string accumulate(const NestPlan& plan, const Scope& scope, int t, const std::string& accumulator) {
  const Term& term = plan.term(t);
  if (t == plan.online.leader) return {};
  if (t == plan.online.follower)
    return extend_online(plan, scope, accumulator.substr(plan.terms.name(t, 'a').size()));
  const Reduction& reduction = reduction_of(plan, t);
  std::string value = plan.terms.name(term.operands[0]);
  if ((plan.mode == NestMode::kRows && !plan.exact) || !scope.rows_exist.empty())
    value = expand("keep(lanes, $value, $neutral)",
                   {{"value", value}, {"neutral", std::string(reduction.neutral)}});
  if (finds_index(term))
    return expand(
        "update_extremum<$largest>($a, x_$a, $value, $index);\n",
        {{"largest", largest(term)}, {"a", accumulator}, {"value", value}, {"index", index_text(plan)}});
  const bool fast = seen_elsewhere(plan, t) && !term.stored && !plan.exact;
  return accumulator + " = " +
         expand(fast ? reduction.fast_combine : reduction.combine, {{"a", accumulator}, {"v", value}}) +
         ";\n";
}

std::string next_exchange(Nest& nest) { return nest.exchanges++ % 2 == 0 ? "<0>" : "<1>"; }

std::string finish_reductions(Nest& nest, const std::vector<int>& reduces) {
  const NestPlan& plan = nest.plan;
  std::string code;
  for (const int t : reduces) {
    if (t == plan.online.leader) continue;
    if (t == plan.online.follower) {
      code += finish_online(nest);
      continue;
    }
    const Term& term = plan.term(t);
    const bool index = finds_index(term);
    const std::string name = plan.terms.name(t), a = plan.terms.name(t, 'a');
    if (plan.columns()) {
      code += expand("$type (&$name)[kBlock / $width] = $result;\n",
                     {{"type", index ? plan.index_type() : plan.lane_type(t)},
                      {"width", plan.width()},
                      {"name", plan.terms.name(t, 'b')},
                      {"result", index ? "x_" + a : a}});
      continue;
    }
    for (int u = 1; u < plan.unroll; ++u) {
      const std::string other = a + "_" + std::to_string(u);
      code += index ? expand("update_extremum<$largest>(${a}_0, x_${a}_0, $other, x_$other);\n",
                             {{"largest", largest(term)}, {"a", a}, {"other", other}})
                    : join(plan, t, a + "_0", other);
    }
    if (plan.exact) {
      code += expand("const $type $name = $result;\n", {{"type", index ? plan.index_type() : term.type},
                                                        {"name", name},
                                                        {"result", (index ? "x_" : "") + a + "_0"}});
      continue;
    }
    code += expand("const float $name = $reduce$exchange(${a}_0$index);\n",
                   {{"name", name},
                    {"reduce", std::string(reduction_of(plan, t).horizontal)},
                    {"exchange", plan.cuda() && !index ? next_exchange(nest) : ""},
                    {"a", a},
                    {"index", index ? ", x_" + a + "_0" : ""}});
  }
  return code;
}

}  // namespace lathe::catalog
