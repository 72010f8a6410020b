#include <algorithm>

#include "policy/catalog/emit/nest/text.h"

namespace lathe::catalog {
namespace {

/// Prefixes `code` with the lane-wise terms outside the reduced loops that it needs: every vector
/// of a column block computes them where they are used, and the compiler hoists them.
std::string with_column_terms(Nest& nest, const Scope& scope, int stage, std::string code) {
  const NestPlan& plan = nest.plan;
  for (int t = plan.term_count(); t-- > 0;) {
    const Term& term = plan.term(t);
    if (plan.inner(term) || !NestPlan::lanewise(term) || term.stage > stage ||
        term.kind == Term::Kind::kReduce)
      continue;
    if (mentions(code, plan.terms.name(t))) code = declare(nest, scope, t, stage, false) + code;
  }
  return code;
}

/// `body` inside the reduced loops that vectors do not run along.
std::string inside_reduced_loops(const NestPlan& plan, const std::string& body) {
  std::string code = body;
  for (int l = static_cast<int>(plan.loops.size()); l-- > 0;) {
    const bool along_vectors = l + 1 == static_cast<int>(plan.loops.size()) && !plan.columns();
    if (!plan.loops[static_cast<std::size_t>(l)].reduced || along_vectors) continue;
    code = expand("$head\n  $code\n}\n", {{"head", reduced_loop_head(plan, l)}, {"code", code}});
  }
  return code;
}

/// Sums with so many terms that one lane of an accumulator may get more than it adds up exactly
/// enough: they are added up in parts.
std::vector<int> sums_in_parts(const NestPlan& plan, const std::vector<int>& reduces) {
  Expr terms = Expr::constant(1);
  for (const Loop& loop : plan.loops)
    if (loop.reduced) terms = terms * loop.extent;
  const std::int64_t lanes = plan.columns() || plan.exact ? 1 : plan.site.target.lanes;
  std::vector<int> sums;
  if (plan.cuda() || most(plan.site.graph, terms) <= kSerialTerms * lanes) return sums;
  for (const int t : reduces)
    if (plan.term(t).node->how == "sum" && (plan.term(t).type == "float" || plan.term(t).type == "double"))
      sums.push_back(t);
  return sums;
}

/// The reduced loops over columns.
std::string column_loops(const NestPlan& plan, const std::vector<int>& reduces, const std::string& columns) {
  const std::vector<int> sums = sums_in_parts(plan, reduces);
  if (sums.empty()) return inside_reduced_loops(plan, columns);
  const std::string terms = "terms_" + plan.terms.name(sums[0]);
  std::string totals, part, rest;
  for (const int t : sums) {
    const Holes names = {{"total", "total_" + plan.terms.name(t)},
                         {"sum", plan.terms.name(t, 'a')},
                         {"type", plan.lane_type(t)},
                         {"width", plan.width()}};
    totals += expand("$type $total[kBlock / $width] = {};\n", {}, names);
    part += expand("$total[u] = $total[u] + $sum[u];\n$sum[u] = $type(0.0f);\n", {}, names);
    rest += expand("$sum[u] = $sum[u] + $total[u];\n", {}, names);
  }
  constexpr std::string_view kPart = R"(
if (++$terms == 1024) {
  $terms = 0;
  for (int u = 0; u < kBlock / $width; ++u) {
    $part
  }
}
)";
  return expand(
      "$totals\nint64_t $terms = 0;\n$loops\nfor (int u = 0; u < kBlock / $width; ++u) {\n  $rest\n}\n",
      {{"totals", totals},
       {"terms", terms},
       {"width", plan.width()},
       {"loops",
        inside_reduced_loops(
            plan, columns + expand(kPart, {{"part", part}, {"terms", terms}, {"width", plan.width()}}))},
       {"rest", rest}});
}

/// The reduced loops over rows: `kept` vectors, then the others.
std::string row_loops(const Nest& nest, const std::vector<int>& reduces, const std::string& kept,
                      const std::string& body) {
  const NestPlan& plan = nest.plan;
  const bool share = plan.shares.loop + 1 == static_cast<int>(plan.loops.size());
  const std::string from = plan.kept > 0 ? "kKept * kLanes" : share ? "first" : "0";
  const std::string to = share ? "last" : plan.last_loop().extent.to_string();
  const std::vector<int> sums = sums_in_parts(plan, reduces);
  if (sums.empty())
    return inside_reduced_loops(
        plan, expand("$kept\n{\n  $loop\n}\n",
                     {{"kept", kept}, {"loop", vector_loop(nest, body, reduces, from, to)}}));
  const std::string vectors = "vectors_" + plan.terms.name(sums[0]);
  std::string totals, part, rest;
  for (const int t : sums) {
    const std::string name = plan.terms.name(t);
    const std::string type = plan.lane_type(t), nothing = type + "(0.0f);\n";
    totals += type + " total_" + name + " = " + nothing;
    std::string sum, cleared;
    for (int u = 0; u < plan.unroll; ++u) {
      const std::string accumulator = plan.terms.name(t, 'a') + "_" + std::to_string(u);
      sum += (u == 0 ? "" : " + ") + accumulator;
      cleared += accumulator + " = ";
    }
    part += "total_" + name + " = total_" + name + " + (" + sum + ");\n" + cleared + nothing;
    rest +=
        expand("${sum}_0 = ${sum}_0 + total_$name;\n", {{"sum", plan.terms.name(t, 'a')}, {"name", name}});
  }
  // Rows may be shorter than a part, or longer.
  constexpr std::string_view kParts = R"(
for (int64_t from = 0; from < $n; from += 1024 * $width) {
  const int64_t to = min(from + 1024 * $width, $n);
  {
    $loop
  }
  $vectors += cdiv(to - from, $width);
  if ($vectors >= 1024) {
    $vectors = 0;
    $part
  }
}
)";
  const std::string loops =
      inside_reduced_loops(plan, expand(kParts, {{"n", to},
                                                 {"loop", vector_loop(nest, body, reduces, "from", "to")},
                                                 {"vectors", vectors},
                                                 {"width", plan.width()},
                                                 {"part", part}}));
  return totals + "int64_t " + vectors + " = 0;\n" + loops + rest;
}

}  // namespace

/// Columns compute lane-wise terms anew for each vector where they are used, so only scalars appear
/// here.
std::string outer_terms(Nest& nest, const Scope& scope, int stage, Stores stores) {
  const NestPlan& plan = nest.plan;
  std::string code;
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    if (plan.inner(term) || term.stage != stage) continue;
    if (plan.columns() && NestPlan::lanewise(term)) continue;
    if (term.kind != Term::Kind::kReduce) code += declare(nest, scope, t, stage, false);
    if (term.stored && stores == Stores::kWrite) code += store(nest, scope, t, false);
  }
  return code;
}

std::string column_stores(Nest& nest, const Scope& scope, int stage) {
  const NestPlan& plan = nest.plan;
  if (!plan.columns()) return {};
  std::string stores;
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    if (term.stored && !plan.inner(term) && NestPlan::lanewise(term) && term.stage == stage)
      stores += store(nest, scope, t, false);
  }
  if (stores.empty()) return {};
  return for_each_column(nest, scope, with_column_terms(nest, scope, stage, stores));
}

std::string pass_body(Nest& nest, const Scope& scope, int stage) {
  const NestPlan& plan = nest.plan;
  std::string code;
  for (const int t : plan.closure(plan.wanted(stage, scope.vectors), stage, scope.vectors))
    code += declare(nest, scope, t, stage, true);
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    if (term.stage != stage) continue;
    const bool to_cache = scope.vectors == Vectors::kFromMemory && t == plan.cached;
    if (to_cache || (term.stored && plan.inner(term))) code += store(nest, scope, t, true);
  }
  return code;
}

std::string pass(Nest& nest, const Scope& scope, int stage) {
  const NestPlan& plan = nest.plan;
  if (plan.wanted(stage).empty()) return {};
  const std::vector<int> reduces = plan.reductions(stage);
  std::string body = pass_body(nest, scope, stage);
  for (const int t : reduces)
    body += accumulate(plan, scope, t, plan.terms.name(t, 'a') + (plan.columns() ? "[u]" : ""));
  std::string code = declare_accumulators(plan, reduces);
  if (plan.columns()) {
    body = with_column_terms(nest, scope, stage, body);
    code += column_loops(plan, reduces, for_each_column(nest, scope, body));
    if (scope.joins_warps) code += join_block(plan, reduces);
  } else {
    code += row_loops(nest, reduces, kept_pass(nest, stage, reduces), body);
  }
  return code + finish_reductions(nest, reduces);
}

}  // namespace lathe::catalog
