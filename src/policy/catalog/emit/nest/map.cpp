#include "policy/catalog/emit/nest/text.h"

// Maps on a GPU: a team reads some vectors of some neighbouring rows, all before it computes
// anything, and is done. What rows have in common is read once for them.

namespace lathe::catalog {
namespace {

constexpr int kMostRead = 8;    ///< vectors of a thread
constexpr int kMostBlocks = 8;  ///< of a multiprocessor, with 256 threads each

/// First every read, then everything else.
constexpr std::string_view kMap = R"(
$outer
$arrays
#pragma unroll 8
for (int u = 0; u < $vectors; ++u) {
  const int64_t j = j0 + u * kLanes;
  $read_common
  $read_rows
}
#pragma unroll 8
for (int u = 0; u < $vectors; ++u) {
  const int64_t j = j0 + u * kLanes;
  $compute_rows
}
)";

constexpr std::string_view kOneRow = R"(
const auto lanes = $lanes;
$code
)";

constexpr std::string_view kMapRows = R"(
#pragma unroll 8
for (int i = 0; i < $rows; ++i) {
  const int64_t $index = first + i;
  const auto lanes = $lanes;
  $code
}
)";

std::string map_text(Nest& nest) {
  const NestPlan& plan = nest.plan;
  const bool several = plan.map_rows > 1;
  const std::size_t row = plan.loops.size() - 2;  // the loop whose neighbours the team takes
  const std::string vectors = std::to_string(plan.unroll), rows = std::to_string(plan.map_rows);
  const std::string extent = plan.last_loop().extent.to_string();
  const std::string whole = expand("($n) % ($vectors * kLanes) == 0", {{"n", extent}, {"vectors", vectors}});
  const std::string lanes = mask(plan, extent + " - j", whole);
  const auto over_rows = [&](const std::string& code) {
    if (!several) return expand(kOneRow, {{"lanes", lanes}, {"code", code}});
    const std::string count = plan.loops[row].extent.to_string(), index = plan.indices[row];
    return expand(kMapRows, {{"rows", rows},
                             {"index", index},
                             {"lanes", mask(plan, index + " < " + count + " ? " + extent + " - j : 0",
                                            whole + " && (" + count + ") % " + rows + " == 0")},
                             {"code", code}});
  };
  std::string arrays, common, own, compute;
  const std::vector<int> order = plan.closure(plan.wanted(0), 0);
  for (const int t : order) {
    const Term& term = plan.term(t);
    if (term.kind != Term::Kind::kLeaf || plan.is_iota(term)) {
      compute += declare(nest, {}, t, 0, true);
      continue;
    }
    const bool each = several && term.runs[row];
    const std::string kept = plan.terms.name(t, 'k'), at = each ? "u * " + rows + " + i" : "u";
    arrays += "f32v " + kept + "[" + vectors + (each ? " * " + rows : "") + "];\n";
    (each || !several ? own : common) +=
        expand("$kept[$at] = $value;\n", {{"kept", kept}, {"at", at}, {"value", read(nest, t, true)}});
    compute += expand("const f32v $name = $kept[$at];\n",
                      {{"name", plan.terms.name(t)}, {"kept", kept}, {"at", at}});
  }
  for (const int t : order)
    if (plan.term(t).stored) compute += store(nest, {}, t, true);
  if (!common.empty())
    common = expand("{\n  const auto lanes = $lanes;\n  $code\n}\n", {{"lanes", lanes}, {"code", common}});
  const std::string outer = outer_terms(nest, {}, 0);
  return expand(kMap, {{"outer", several ? "" : outer},
                       {"arrays", arrays},
                       {"vectors", vectors},
                       {"read_common", common},
                       {"read_rows", over_rows(own)},
                       {"compute_rows", over_rows(several ? outer + compute : compute)}});
}

}  // namespace

void choose_map(const Site& site, NestPlan& plan) {
  bool common = false;
  std::int64_t vectors = plan.row_vectors();
  for (std::size_t l = 0; l + 1 < plan.loops.size(); ++l) vectors *= site.headline(plan.loops[l].extent);
  bool of_rows = false;  // which lie outside the tensor beyond its last row
  for (const Term& term : plan.terms.list) {
    if (plan.mode == NestMode::kFlat || term.kind != Term::Kind::kLeaf) continue;
    common |= NestPlan::lanewise(term) && !term.runs[plan.loops.size() - 2];
    of_rows |= !NestPlan::lanewise(term) && term.runs[plan.loops.size() - 2];
  }
  common &= !of_rows;
  const std::int64_t blocks =
      std::int64_t{site.target.multiprocessors} * kMostBlocks * 256 / site.target.team;
  const auto fitting = [&](int most) {
    while (most > 1 && vectors / most < blocks) most /= 2;
    return most;
  };
  if (common) plan.map_rows = site.knob("rows", {1, 2, 4, 8}, fitting(4));
  std::vector<int> allowed;
  for (const int count : {1, 2, 4, 8})
    if (count * plan.map_rows <= kMostRead) allowed.push_back(count);
  plan.unroll = site.knob("unroll", allowed, common ? 1 : fitting(2));
}

void launch_map(Nest& nest, const std::string& kernel) {
  const NestPlan& plan = nest.plan;
  std::vector<Loop> outer(plan.loops.begin(), plan.loops.end() - 1);
  std::vector<std::string> names(plan.indices.begin(), plan.indices.end() - 1);
  const Expr blocks = Expr::apply("cdiv", plan.last_loop().extent, Expr::constant(plan.block_floats()));
  const std::string block = std::to_string(plan.block_floats()), rows = std::to_string(plan.map_rows);
  Expr items = blocks;
  std::string body;
  if (outer.empty()) {
    body = "const int64_t j0 = item * " + block + ";\n";
  } else {
    if (plan.map_rows > 1) {
      outer.back().extent = Expr::apply("cdiv", outer.back().extent, Expr::constant(plan.map_rows));
      names.back() = "group";
    }
    for (const Loop& loop : outer) items = items * loop.extent;
    body = expand("const int64_t own = quotient(item, $blocks), j0 = (item - own * $factor) * $block;\n",
                  {{"blocks", blocks.to_string()}, {"factor", factor(blocks)}, {"block", block}}) +
           unflatten("own", outer, names, true);
    if (plan.map_rows > 1) body += "const int64_t first = group * " + rows + ";\n";
  }
  body += map_text(nest);
  const std::string reach = vectors_fit(nest);
  nest.program.launch(
      {.name = kernel, .items = items, .written = nest.written, .body = body, .reach = reach});
}

}  // namespace lathe::catalog
