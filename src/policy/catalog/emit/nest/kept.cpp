#include <algorithm>

#include "policy/catalog/emit/nest/text.h"

// Rows on a GPU: the first vectors of a row are read once, all together, and stay in registers
// between passes. What of a row lies beyond them is read again by each pass.

namespace lathe::catalog {
namespace {

constexpr int kMostEarly = 24;  ///< floats of a thread that may be read before the first pass

/// `code` for each kept vector.
std::string for_each_kept(const Nest& nest, const std::string& code) {
  const NestPlan& plan = nest.plan;
  const Holes extent = {{"n", plan.last_loop().extent.to_string()}};
  const std::string all = expand("($n) % kLanes == 0 && ($n) >= kKept * kLanes", {}, extent);
  return expand(R"(
#pragma $unroll 16
for (int u = 0; u < kKept; ++u) {
  const int64_t j = u * kLanes;
  const auto lanes = $mask;
  $code
}
)",
                {{"mask", mask(plan, expand("$n - j", {}, extent), all)}, {"code", code}},
                nest.program.words());
}

/// Values along a row that `fewest_passes` passes need (the first counts twice), and are read or
/// costly.
std::vector<int> worth_keeping(const NestPlan& plan, const std::vector<int>& passes_of, int fewest_passes) {
  std::vector<int> terms;
  for (int t = 0; t < plan.term_count(); ++t) {
    const Term& term = plan.term(t);
    const bool leaf = term.kind == Term::Kind::kLeaf && !plan.is_iota(term);
    const bool later =
        (term.heavy || plan.overwrites(t)) && NestPlan::full(term) && plan.is_needed_after(t, term.stage);
    if (NestPlan::lanewise(term) &&
        ((leaf && passes_of[static_cast<std::size_t>(t)] >= fewest_passes) || later))
      terms.push_back(t);
  }
  return terms;
}

}  // namespace

/// Of the values along a row those stay that several passes need, or the first; where registers
/// suffice also what only a later pass reads.
void choose_kept(const Site& site, NestPlan& plan) {
  if (!site.target.cuda || plan.mode != NestMode::kRows || plan.shares.loop >= 0) return;
  if (std::ranges::count_if(plan.loops, [](const Loop& loop) { return loop.reduced; }) > 1) return;
  std::vector<int> passes_of(plan.terms.list.size(), 0);
  for (int stage = 0; stage < plan.terms.stages; ++stage)
    for (const int t : plan.closure(plan.wanted(stage), stage))
      passes_of[static_cast<std::size_t>(t)] += stage == 0 ? 2 : 1;
  const std::vector<int> often = worth_keeping(plan, passes_of, 2);
  const std::vector<int> allowed = {0, 1, 2, 3, 4, 6, kMostKept, 16};
  const std::int64_t vectors = plan.row_vectors();
  const auto enough = std::ranges::find_if(allowed, [&](int count) { return count >= vectors; });
  const bool usual = plan.online.leader < 0 && vectors <= kMostKept && !often.empty();
  plan.kept = site.knob("keep", allowed, usual ? *enough : 0);
  if (plan.kept == 0) return;
  const std::vector<int> all = worth_keeping(plan, passes_of, 1);
  plan.kept_terms = often;
  if (all.size() == often.size()) return;
  const int floats = plan.kept * site.target.vector * static_cast<int>(all.size());
  if (site.knob("early", {0, 1}, floats <= kMostEarly ? 1 : 0) == 1) plan.kept_terms = all;
}

std::string keep_rows(Nest& nest) {
  const NestPlan& plan = nest.plan;
  if (plan.kept == 0) return {};
  const std::string count = std::to_string(plan.kept);
  std::string arrays, loads;
  for (const int t : plan.kept_terms) {
    const std::string name = plan.terms.name(t, 'k');
    arrays += "f32v " + name + "[" + count + "];\n";
    if (plan.term(t).kind == Term::Kind::kLeaf) loads += name + "[u] = " + read(nest, t, true) + ";\n";
  }
  return "constexpr int kKept = decltype(reach)::kWide ? " + count + " : 0;\n" + arrays +
         for_each_kept(nest, loads);
}

std::string kept_pass(Nest& nest, int stage, const std::vector<int>& reduces) {
  if (nest.plan.kept == 0) return {};
  const Scope kept = {.vectors = Vectors::kKept};
  std::string body = pass_body(nest, kept, stage);
  for (const int t : reduces) body += accumulate(nest.plan, kept, t, nest.plan.terms.name(t, 'a') + "_0");
  return for_each_kept(nest, body);
}

}  // namespace lathe::catalog
