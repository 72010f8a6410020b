#include "policy/catalog/emit/nest/plan.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

constexpr int kFlatBlock = 4096;
constexpr std::int64_t kFewBlocks = 256;       ///< fewer blocks leave multiprocessors without work
constexpr std::int64_t kFullDevice = 1 << 16;  ///< threads below which a device waits for memory

/// As many rows of a column block as fit registers: what is read, and what it is added to.
void choose_ahead(const Site& site, NestPlan& plan) {
  constexpr std::int64_t kMostHeldAhead = 1 << 14;  // fp32 numbers of a whole block's threads
  std::vector<int> allowed;
  for (const int rows : {1, 4, 8, 16})
    if (rows == 1 || (rows * std::int64_t{site.target.lanes} <= kMostHeldAhead &&
                      (plan.shares.depth == 0 || rows <= plan.shares.depth)))
      allowed.push_back(rows);
  plan.ahead = site.knob("ahead", allowed, std::min(allowed.back(), plan.unroll > 2 ? 4 : 8));
}

/// Finding a row takes longer than computing a short one.
void choose_run(const Site& site, NestPlan& plan) {
  constexpr std::int64_t kFewestItems = 64;  // which threads share
  for (int l = static_cast<int>(plan.loops.size()) - 1; l-- > 0 && plan.run < 0;)
    if (!plan.loops[static_cast<std::size_t>(l)].reduced) plan.run = l;
  if (plan.run >= 0 && site.headline(plan.items()) < kFewestItems) plan.run = -1;
}

/// Vectors along rows that do not fill one compute more lanes than there are values. Only where a
/// running sum of a row is exact enough.
void choose_by_value(const Site& site, NestPlan& plan) {
  if (plan.exact) return;
  constexpr std::int64_t kLongestSum = 4096;
  const std::int64_t length = site.headline(plan.last_loop().extent);
  if (site.target.cuda || plan.mode == NestMode::kFlat || length >= site.target.lanes) return;
  Expr terms = Expr::constant(1);
  for (const Loop& loop : plan.loops)
    if (loop.reduced) terms = terms * loop.extent;
  if (most(site.graph, terms) > kLongestSum) return;
  const bool heavy =
      std::ranges::any_of(plan.terms.list, [&](const Term& t) { return t.heavy && plan.inner(t); });
  // Of what is made of operators alone the compiler makes vectors across rows, which need no masks.
  const bool plain = plan.mode == NestMode::kMap && std::ranges::none_of(plan.terms.list, &Term::calls);
  const std::int64_t longest = site.target.lanes / (plain ? 1 : heavy ? 4 : 2);
  plan.by_value = site.knob("by_value", {0, 1}, length <= longest ? 1 : 0) == 1;
  if (plan.by_value) choose_run(site, plan);
}

/// Accumulators that a row's vectors do not reach are joined for nothing.
int usual_unroll(const Site& site, const NestPlan& plan) {
  if (site.target.cuda) return 4;
  const std::int64_t vectors = site.headline(plan.last_loop().extent) / site.target.lanes;
  return vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
}

/// A costly value that a later pass needs again is left in the output that the last pass
/// overwrites.
void choose_cache(const Site& site, NestPlan& plan) {
  if (plan.terms.stages < 2) return;
  const int last = plan.terms.stages - 1;
  std::string place;
  for (const Term& term : plan.terms.list) {
    const DType computed = plan.exact ? DType::kF64 : DType::kF32;
    if (!term.stored || !NestPlan::full(term) || term.stage != last || term.node->type.dtype != computed)
      continue;
    if (!site.graph.overwrites(term.value)) place = term.value;
  }
  if (place.empty()) return;
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    if (!term.heavy || !NestPlan::full(term) || term.stage >= last || plan.overwrites(t)) continue;
    if (plan.exact && term.type != "double") continue;
    if (!plan.is_needed_after(t, term.stage)) continue;
    if (site.knob("cache", {0, 1}, 1) == 0) return;
    plan.cached = t;
    plan.cache = place;
    return;
  }
}

/// Which loads and stores pass by the cache.
void choose_stream(const Site& site, NestPlan& plan) {
  const bool cuda = site.target.cuda;
  if ((plan.mode != NestMode::kFlat && !cuda) || plan.exact) return;
  const int stream =
      site.knob("stream", cuda ? std::vector<int>{0, 4, 1, 5, 3, 2} : std::vector<int>{0, 1}, 0);
  plan.stores_past_cache = stream == 1 || stream == 2 || stream == 5;
  if (stream == 2 || stream == 3) plan.load = "load_past_cache";
  if (stream > 3) plan.load = "load_to_stay";
}

}  // namespace

NestPlan::NestPlan(const Site& from)
    : site(from),
      loops(merge_loops(from.graph, from.group)),
      terms(collect_terms(from.graph, from.group, loops)),
      exact(from.node().exact),
      by_value(exact) {
  if (!site.group.reduces()) {
    mode = loops.size() == 1 ? NestMode::kFlat : NestMode::kMap;
  } else {
    mode = loops.back().reduced ? NestMode::kRows : NestMode::kColumns;
  }
  for (std::size_t l = 0; l + 1 < loops.size(); ++l) indices.push_back("ix" + std::to_string(l));
  indices.emplace_back("j");
}

bool NestPlan::is_kept(int t) const { return std::ranges::find(kept_terms, t) != kept_terms.end(); }

bool NestPlan::inner(const Term& term) const {
  if (mode == NestMode::kFlat || mode == NestMode::kMap) return term.runs.back();
  for (std::size_t l = 0; l < loops.size(); ++l)
    if (loops[l].reduced && term.runs[l]) return true;
  return false;
}

std::string NestPlan::accumulator_type(int t) const {
  return lane_type(term(t).node->how.starts_with("arg") ? term(t).operands[0] : t);
}

bool NestPlan::full(const Term& term) { return std::ranges::find(term.runs, false) == term.runs.end(); }

bool NestPlan::is_plain_map() const {
  if (!cuda() || (mode != NestMode::kFlat && mode != NestMode::kMap)) return false;
  return std::ranges::none_of(terms.list, [&](const Term& term) { return term.stored && !inner(term); });
}

std::vector<int> NestPlan::reductions(int stage) const {
  std::vector<int> found;
  for (int t = 0; t < term_count(); ++t)
    if (term(t).kind == Term::Kind::kReduce && term(t).stage == stage + 1) found.push_back(t);
  return found;
}

std::vector<int> NestPlan::wanted(int stage, Vectors vectors) const {
  std::vector<int> targets;
  for (const int reduce : reductions(stage))
    if (reduce != online.follower) targets.push_back(term(reduce).operands[0]);
  for (int t = 0; t < term_count(); ++t) {
    const bool left =
        vectors == Vectors::kKept ? is_kept(t) && term(t).kind != Term::Kind::kLeaf : t == cached;
    if (term(t).stage == stage && (left || (term(t).stored && inner(term(t))))) targets.push_back(t);
  }
  return targets;
}

bool NestPlan::is_left_over(int t, int stage, Vectors vectors) const {
  const bool later = term(t).stage < stage;
  if (later && inner(term(t)) && overwrites(t)) return true;
  if (vectors == Vectors::kKept) return is_kept(t) && (term(t).kind == Term::Kind::kLeaf || later);
  return t == cached && later;
}

std::vector<int> NestPlan::closure(const std::vector<int>& targets, int stage, Vectors vectors) const {
  std::vector<bool> needed(terms.list.size(), false);
  for (const int target : targets) needed[static_cast<std::size_t>(target)] = true;
  for (int t = term_count(); t-- > 0;) {
    if (!needed[static_cast<std::size_t>(t)] || !inner(term(t)) || is_left_over(t, stage, vectors)) continue;
    for (const int operand : term(t).operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  std::vector<int> order;
  for (int t = 0; t < term_count(); ++t)
    if (needed[static_cast<std::size_t>(t)] && inner(term(t))) order.push_back(t);
  return order;
}

bool NestPlan::is_needed_after(int t, int stage) const {
  for (int later = stage + 1; later < terms.stages; ++later) {
    const std::vector<int> needed = closure(wanted(later), later);
    if (std::ranges::find(needed, t) != needed.end()) return true;
  }
  return false;
}

int NestPlan::flat_block() const { return cuda() ? static_cast<int>(block_floats()) : kFlatBlock; }

Expr NestPlan::items() const {
  Expr count = Expr::constant(1);
  for (std::size_t l = 0; l + 1 < loops.size(); ++l)
    if (!loops[l].reduced && static_cast<int>(l) != run) count = count * loops[l].extent;
  return columns() ? count * Expr::apply("cdiv", last_loop().extent, Expr::constant(block_floats())) : count;
}

std::int64_t NestPlan::row_vectors() const {
  return (site.headline(last_loop().extent) - 1) / site.target.lanes + 1;
}

bool NestPlan::rows_are_few() const {
  const std::int64_t teams = site.headline(items());
  return mode == NestMode::kRows ? teams < kFewBlocks : teams * site.target.team < kFullDevice;
}

Result<NestPlan> choose_nest(const Site& site) {
  NestPlan plan(site);
  if (plan.columns())
    for (const Term& term : plan.terms.list)
      if (term.kind == Term::Kind::kReduce && !NestPlan::lanewise(term))
        return Error{ErrorCode::kUnavailable, "a reduction whose operand does not run along the vectors"};
  const bool cuda = site.target.cuda;
  choose_picks(site, plan);
  choose_online(site, plan);
  choose_cache(site, plan);
  if (plan.columns()) {
    plan.unroll = site.knob(
        "unroll", cuda ? std::vector<int>{1, 2} : std::vector<int>{1, 2, 4, 8, 16, 32, 64}, cuda ? 1 : 4);
    choose_shares(site, plan);
    if (cuda) choose_ahead(site, plan);
  } else if (choose_by_value(site, plan); plan.by_value) {
    plan.unroll = plan.exact && plan.mode == NestMode::kRows ? site.knob("unroll", {1, 4, 8, 16}, 8) : 1;
  } else if (plan.mode == NestMode::kRows) {
    choose_shares(site, plan);
    choose_kept(site, plan);
    plan.unroll = site.knob("unroll", {1, 2, 4, 8}, plan.kept > 0 ? 1 : usual_unroll(site, plan));
    if (plan.shares.depth > 0) plan.unroll = std::min(plan.unroll, plan.shares.depth);
  } else if (plan.is_plain_map()) {
    choose_map(site, plan);
  } else {
    plan.unroll = site.knob("unroll", {1, 2, 4, 8}, 2);
  }
  choose_stream(site, plan);
  return plan;
}

}  // namespace lathe::catalog
