#include <algorithm>

#include "policy/catalog/emit/nest/text.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

Work work_of(const NestPlan& plan) {
  Work work;
  std::vector<Expr> extents;
  for (const Loop& loop : plan.loops) extents.push_back(loop.extent);
  const double elements = plan.site.count(extents);
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    if ((term.kind == Term::Kind::kLeaf && !plan.is_iota(term)) || term.stored)
      work.bytes += 4 * plan.site.count(plan.site.graph.type_of(term.value).shape);
    if (!plan.inner(term)) continue;
    work.flops += elements * plan.terms.stages;
    const bool once = plan.cached == t || term.stage + 1 >= plan.terms.stages;
    if (term.heavy) work.special += elements * (once ? 1 : 2);
  }
  if (!plan.cuda()) work.flops += elements * (4.0 - std::min(plan.unroll, 4)) * 0.2;
  return work;
}

/// One loop over everything: an item is a block of it.
void launch_flat(Nest& nest, const std::string& name) {
  const NestPlan& plan = nest.plan;
  const Expr& extent = plan.last_loop().extent;
  const std::string block = std::to_string(plan.flat_block());
  const std::string to =
      expand("min(end * $block, int64_t{$n})", {{"block", block}, {"n", extent.to_string()}});
  std::string body = outer_terms(nest, {}, 0);
  body += vector_loop(nest, pass_body(nest, {}, 0), {}, "begin * " + block, to);
  const std::string reach = vectors_fit(nest);
  nest.program.launch_ranges({.name = name,
                              .items = Expr::apply("cdiv", extent, Expr::constant(plan.flat_block())),
                              .written = nest.written,
                              .body = body,
                              .reach = reach});
}

/// Rows, or blocks of columns: one after the other, each in as many passes as its results need.
void launch_passes(Nest& nest, const std::string& name) {
  const NestPlan& plan = nest.plan;
  std::string body = keep_rows(nest);
  for (int stage = 0; stage < plan.terms.stages; ++stage)
    body += outer_terms(nest, {}, stage) + column_stores(nest, {}, stage) + pass(nest, {}, stage);
  if (plan.run >= 0) {
    const auto run = static_cast<std::size_t>(plan.run);
    body = expand("for (int64_t $index = 0; $index < $n; ++$index) {\n  $body\n}\n",
                  {{"index", plan.indices[run]}, {"n", plan.loops[run].extent.to_string()}, {"body", body}});
  }
  body = item_indices(plan, "item") + body;
  const std::string reach = vectors_fit(nest);
  const std::string block = "constexpr int64_t kBlock = " + std::to_string(plan.block_floats()) + ";\n";
  nest.program.launch({.name = name,
                       .items = plan.items(),
                       .written = nest.written,
                       .body = body,
                       .before = plan.columns() ? block : "",
                       .reach = reach});
}

struct Names {
  const char* kernel;
  const char* pattern;
};

Names names_of(NestMode mode) {
  if (mode == NestMode::kRows) return {"_rows", "row_reduce"};
  return mode == NestMode::kColumns ? Names{"_columns", "column_reduce"} : Names{"_map", "map"};
}

}  // namespace

Status emit_nest(const Site& site, Program& program) {
  LATHE_TRY(const NestPlan plan, choose_nest(site));
  const Names names = names_of(plan.mode);
  const std::string kernel = site.prefix + names.kernel;
  program.add_pattern(names.pattern);
  program.add_work(work_of(plan));
  Nest nest{plan, program};
  if (plan.is_plain_map()) {
    launch_map(nest, kernel);
  } else if (plan.mode == NestMode::kFlat) {
    launch_flat(nest, kernel);
  } else if (plan.shares.loop >= 0) {
    launch_shares(nest, kernel);
  } else {
    launch_passes(nest, kernel);
  }
  return Ok{};
}

}  // namespace lathe::catalog
