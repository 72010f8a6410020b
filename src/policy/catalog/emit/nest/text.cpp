#include "policy/catalog/emit/nest/text.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lathe::catalog {
namespace {

constexpr std::string_view kGpuLoop = R"(
const auto body = [&](int64_t j, auto lanes$parameters) {
  $body
};
const int64_t stop = $to;
#pragma unroll 1
$head
  $calls
}
)";

/// Whole vectors have no mask; the compiler sees three copies of the body.
constexpr std::string_view kCpuLoop = R"(
const auto body = [&](int64_t j, auto lanes$parameters) __attribute__((always_inline)) {
  $body
};
int64_t at = $from;
const int64_t stop = $to;
$unrolled
for (; at + kLanes <= stop; at += kLanes) body(at, whole()$first);
if (at < stop) body(at, first_lanes(stop - at)$first);
)";

constexpr std::string_view kSingleLoop = R"(
const auto body = [&](int64_t j, auto lanes$parameters) __attribute__((always_inline)) {
  $body
};
int64_t at = $from;
const int64_t stop = $to;
$unrolled
for (; at < stop; ++at) body(at, single()$first);
)";

constexpr std::string_view kUnrolled = R"(
for (; at + $step <= stop; at += $step) {
  $calls
}
)";

constexpr std::string_view kColumnsOneByOne = R"(
for (int64_t u = 0; u < min(int64_t{kBlock}, $extent - j0); ++u) {
  const int64_t j = j0 + u;
  const single lanes;
  $results
  $code
}
)";

constexpr std::string_view kColumnNest = R"(
#pragma $unroll 8
for (int u = 0; u < kBlock / kLanes; ++u) {
  const int64_t j = j0 + u * kLanes;
  const $mask_type lanes = $mask;
  $results
  $code
}
)";

/// ", a_t1_0, x_a_t1_0": the u-th accumulators of the reductions.
std::string accumulators(const NestPlan& plan, const std::vector<int>& reduces, int u) {
  std::string text;
  for (const int t : reduces) {
    const std::string name = plan.terms.name(t, 'a') + "_" + std::to_string(u);
    text += ", " + name;
    if (finds_index(plan.term(t))) text += ", x_" + name;
  }
  return text;
}

std::string parameters(const NestPlan& plan, const std::vector<int>& reduces) {
  std::string text;
  for (const int t : reduces) {
    text += ", " + plan.accumulator_type(t) + "& " + plan.terms.name(t, 'a');
    if (finds_index(plan.term(t))) text += ", " + plan.index_type() + "& x_" + plan.terms.name(t, 'a');
  }
  return text;
}

/// " + 2 * kLanes" for the third vector.
std::string behind(const NestPlan& plan, const char* sign, int u) {
  return u == 0 ? "" : std::string(" ") + sign + " " + std::to_string(u) + (plan.exact ? "" : " * kLanes");
}

/// All vectors of a step are masked: lanes that nothing is left for do nothing.
std::string gpu_loop(const NestPlan& plan, const std::string& body, const std::vector<int>& reduces,
                     const std::string& from, const std::string& to) {
  const bool share = from == "first";
  const std::string step = std::to_string(plan.unroll) + " * kLanes",
                    extent = plan.last_loop().extent.to_string();
  std::string all;
  if (share) all = "(" + extent + ") % " + std::to_string(plan.shares.length) + " == 0";
  if (from == "0" || plan.kept > 0) all = "(" + extent + " - " + from + ") % (" + step + ") == 0";
  const std::string turns = std::to_string(plan.shares.depth / plan.unroll);
  const std::string head =
      share ? expand("for (int r = 0; r < $turns; ++r) {\n  const int64_t at = first + r * $step;",
                     {{"turns", turns}, {"step", step}})
            : expand("for (int64_t at = $from; at < stop; at += $step) {", {{"from", from}, {"step", step}});
  std::string calls;
  for (int u = 0; u < plan.unroll; ++u)
    calls += expand("body(at$ahead, $mask$accumulators);\n",
                    {{"ahead", behind(plan, "+", u)},
                     {"mask", mask(plan, "stop - at" + behind(plan, "-", u), all)},
                     {"accumulators", accumulators(plan, reduces, u)}});
  return expand(kGpuLoop, {{"parameters", parameters(plan, reduces)},
                           {"body", body},
                           {"to", to},
                           {"head", head},
                           {"calls", calls}});
}

}  // namespace

bool mentions(const std::string& code, const std::string& word) {
  const auto is_word = [&](std::size_t i) {
    return i < code.size() && (std::isalnum(static_cast<unsigned char>(code[i])) != 0 || code[i] == '_');
  };
  for (std::size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1))
    if (!is_word(at + word.size()) && (at == 0 || !is_word(at - 1))) return true;
  return false;
}

std::string address(const NestPlan& plan, const std::string& value) {
  return element(plan.site.graph, plan.site.group, plan.loops, value, plan.indices);
}

std::string read(Nest& nest, int t, bool inside) {
  const NestPlan& plan = nest.plan;
  const Term& term = plan.term(t);
  if (plan.is_iota(term)) return iota_text(plan.site.group, plan.loops, term, plan.indices, !plan.by_value);
  const std::string at = nest.program.parameter(term.value);
  const TensorDecl* tensor = plan.site.graph.task->find_tensor(term.value);
  const std::string cast = "static_cast<" + term.type + ">(" + at;
  if (tensor != nullptr && tensor->role == Role::kScalar) return cast + ")";
  const std::string where = address(plan, term.value);
  if (plan.exact || !NestPlan::lanewise(term) || !(inside || plan.columns()))
    return cast + "[" + where + "])";
  nest.vectors.insert(at);
  const bool once = NestPlan::full(term) && plan.site.graph.type_of(term.value).dtype == DType::kF32;
  return expand("$load($at + $where, lanes)",
                {{"load", once ? plan.load : "load"}, {"at", at}, {"where", where}});
}

std::string declare(Nest& nest, const Scope& scope, int t, int stage, bool inside) {
  const NestPlan& plan = nest.plan;
  const Term& term = plan.term(t);
  const auto computed = [&] {
    return term.kind == Term::Kind::kLeaf ? read(nest, t, inside) : formula_text(plan.terms, term);
  };
  std::string value;
  if (scope.vectors == Vectors::kKept && plan.is_kept(t)) {
    value = plan.terms.name(t, 'k') + "[u]";
    if (!plan.is_left_over(t, stage, scope.vectors)) value += " = " + formula_text(plan.terms, term);
  } else if (plan.is_left_over(t, stage)) {
    const std::string& place = t == plan.cached ? plan.cache : term.value;
    const std::string left = nest.program.parameter(place);
    nest.vectors.insert(left);
    value = plan.exact ? left + "[" + address(plan, place) + "]"
                       : "load(" + left + " + " + address(plan, place) + ", lanes)";
  } else {
    value = plan.picks.contains(t) ? pick(nest, t) : computed();
  }
  const bool lanes = NestPlan::lanewise(term) && (inside || plan.columns());
  return expand(
      "const $type $name = $value;\n",
      {{"type", lanes ? plan.lane_type(t) : term.type}, {"name", plan.terms.name(t)}, {"value", value}});
}

std::string store(Nest& nest, const Scope& scope, int t, bool inside) {
  const NestPlan& plan = nest.plan;
  const Term& term = plan.term(t);
  const std::string place = t == plan.cached && !term.stored ? plan.cache : term.value;
  const std::string buffer = nest.program.buffer(place), at = nest.program.parameter(place);
  nest.written.insert(buffer);
  std::vector<std::string> conditions;
  for (std::size_t l = 0; l + 1 < plan.loops.size(); ++l)
    if (!plan.loops[l].reduced && !term.runs[l] && plan.mode != NestMode::kFlat)
      conditions.push_back(plan.indices[l] + " == 0");
  if (!scope.only.empty() && !plan.inner(term)) conditions.push_back(scope.only);
  std::string guard;
  for (const std::string& condition : conditions) guard += (guard.empty() ? "if (" : " && ") + condition;
  if (!guard.empty()) guard += ") ";
  const Holes names = {
      {"guard", guard}, {"at", at}, {"where", address(plan, place)}, {"name", plan.terms.name(t)}};
  if (!plan.exact && NestPlan::lanewise(term) && (inside || plan.columns())) {
    nest.vectors.insert(at);
    const bool past = plan.stores_past_cache && !plan.site.graph.is_input(buffer) &&
                      plan.site.graph.type_of(place).dtype == DType::kF32;
    return expand("$guard$store($at + $where, $name, lanes);\n",
                  {{"store", past ? "store_past_cache" : "store"}}, names);
  }
  return expand("$guard$at[$where] = static_cast<$type>($name);\n", {{"type", c_type(term.node->type.dtype)}},
                names);
}

std::string mask(const NestPlan& plan, const std::string& lanes, const std::string& all) {
  if (!plan.cuda()) return "first_lanes(" + lanes + ")";
  if (plan.site.target.fixed && !all.empty()) return "leading_lanes<(" + all + ")>(reach, " + lanes + ")";
  return "reach.first_lanes(" + lanes + ")";
}

std::string item_indices(const NestPlan& plan, const std::string& item) {
  std::vector<Loop> outer;
  std::vector<std::string> names;
  for (std::size_t l = 0; l + 1 < plan.loops.size(); ++l) {
    if (plan.loops[l].reduced || static_cast<int>(l) == plan.run) continue;
    outer.push_back(plan.loops[l]);
    names.push_back(plan.indices[l]);
  }
  if (!plan.columns()) return outer.empty() ? "" : unflatten(item, outer, names, plan.cuda());
  // GPUs divide 64 bits slowly.
  const Holes sizes = {{"item", item}, {"n", plan.last_loop().extent.to_string()}};
  std::string code = expand(plan.cuda() ? "const int64_t j0 = residue($item, cdiv($n, kBlock)) * kBlock;\n"
                                        : "const int64_t j0 = $item % cdiv($n, kBlock) * kBlock;\n",
                            {}, sizes);
  if (outer.empty()) return code;
  code += expand(plan.cuda() ? "const int64_t outer = quotient($item, cdiv($n, kBlock));\n"
                             : "const int64_t outer = $item / cdiv($n, kBlock);\n",
                 {}, sizes);
  return code + unflatten("outer", outer, names, plan.cuda());
}

std::string vector_loop(const Nest& nest, const std::string& body, const std::vector<int>& reduces,
                        const std::string& from, const std::string& to) {
  const NestPlan& plan = nest.plan;
  if (plan.cuda()) return gpu_loop(plan, body, reduces, from, to);
  const std::string all = plan.by_value ? "single()" : "whole()";
  std::string calls;
  for (int u = 0; u < plan.unroll; ++u)
    calls += "body(at" + behind(plan, "+", u) + ", " + all + accumulators(plan, reduces, u) + ");\n";
  const std::string step = std::to_string(plan.unroll) + (plan.exact ? "" : " * kLanes");
  const std::string unrolled = plan.unroll > 1 ? expand(kUnrolled, {{"step", step}, {"calls", calls}}) : "";
  return expand(plan.by_value ? kSingleLoop : kCpuLoop, {{"parameters", parameters(plan, reduces)},
                                                         {"body", body},
                                                         {"from", from},
                                                         {"to", to},
                                                         {"unrolled", unrolled},
                                                         {"first", accumulators(plan, reduces, 0)}});
}

/// Lane-wise results of earlier passes are read from their arrays.
std::string for_each_column(const Nest& nest, const Scope& scope, const std::string& code) {
  const NestPlan& plan = nest.plan;
  const std::string extent = plan.last_loop().extent.to_string();
  std::string all = "(" + extent + ") % kBlock == 0", left = extent + " - j";
  if (!scope.rows_exist.empty()) {
    all += " && " + scope.rows_exist;
    left = "in ? " + left + " : 0";
  }
  std::string results;
  for (int t = 0; t < plan.term_count(); ++t) {
    const std::string name = plan.terms.name(t);
    if (plan.term(t).kind == Term::Kind::kReduce && NestPlan::lanewise(plan.term(t)) && mentions(code, name))
      results += "const " + plan.lane_type(t) + " " + name + " = " + plan.terms.name(t, 'b') + "[u];\n";
  }
  if (plan.exact)
    return expand(kColumnsOneByOne,
                  {{"extent", factor(plan.last_loop().extent)}, {"results", results}, {"code", code}});
  return expand(kColumnNest,
                {{"mask_type", plan.cuda() ? "auto" : "maskv"},
                 {"mask", mask(plan, left, all)},
                 {"results", results},
                 {"code", code}},
                nest.program.words());
}

std::string vectors_fit(Nest& nest) {
  const auto buffers = std::exchange(nest.vectors, {});
  if (!nest.plan.cuda()) return {};
  std::string fits = "kVector == 1 || (" + nest.plan.last_loop().extent.to_string() + ") % kVector == 0";
  if (nest.plan.site.target.fixed) return fits;
  for (const std::string& buffer : buffers) fits += " && is_aligned<4 * kVector>(" + buffer + ")";
  return fits;
}

}  // namespace lathe::catalog
