#include <algorithm>

#include "policy/catalog/emit/nest/nest.h"

// Rows on a GPU: the first vectors of a row are read once, all together, and stay in registers between
// passes. What of a row lies beyond them is read again by each pass.

namespace lathe::catalog {

constexpr int kMostEarly = 24;  ///< floats of a thread that may be read before the first pass

bool NestEmitter::is_kept(int t) const { return std::ranges::find(kept_terms_, t) != kept_terms_.end(); }

bool NestEmitter::is_left_over(int t, int stage) const {
  const Term& term = terms_.list[static_cast<std::size_t>(t)];
  if (in_kept_) return is_kept(t) && (term.kind == Term::Kind::kLeaf || term.stage < stage);
  return t == cached_ && term.stage < stage;
}

/// Of the values along a row those stay that several passes need, or the first, and are read or costly;
/// where registers suffice also what only a later pass reads.
void NestEmitter::choose_kept() {
  if (!site_.target.cuda || mode_ != NestMode::kRows || split_ >= 0) return;
  if (std::ranges::count_if(loops_, [](const Loop& loop) { return loop.reduced; }) > 1) return;
  std::vector<int> passes_of(terms_.list.size(), 0);
  for (int stage = 0; stage < terms_.stages; ++stage)
    for (const int t : closure(wanted(stage), stage))
      passes_of[static_cast<std::size_t>(t)] += stage == 0 ? 2 : 1;
  const auto collect = [&](int fewest_passes) {
    kept_terms_.clear();
    for (std::size_t t = 0; t < terms_.list.size(); ++t) {
      const Term& term = terms_.list[t];
      const bool leaf = term.kind == Term::Kind::kLeaf && !site_.graph.iotas.contains(term.value);
      const bool full = std::ranges::find(term.runs, false) == term.runs.end();
      const bool later = term.heavy && full && is_needed_after(static_cast<int>(t), term.stage);
      if (lanewise(term) && ((leaf && passes_of[t] >= fewest_passes) || later))
        kept_terms_.push_back(static_cast<int>(t));
    }
  };
  collect(2);
  const std::vector<int> allowed = {0, 1, 2, 3, 4, 6, kMostKept, 16};
  const std::int64_t vectors = row_vectors();
  const auto enough = std::ranges::find_if(allowed, [&](int count) { return count >= vectors; });
  kept_ =
      site_.knob("keep", allowed, leader_ >= 0 || vectors > kMostKept || kept_terms_.empty() ? 0 : *enough);
  if (kept_ == 0) return kept_terms_.clear();
  const std::size_t again = kept_terms_.size();
  collect(1);
  if (kept_terms_.size() == again) return;
  const int floats = kept_ * site_.target.vector * static_cast<int>(kept_terms_.size());
  if (site_.knob("early", {0, 1}, floats <= kMostEarly ? 1 : 0) == 0) collect(2);
}

/// Whether a pass after `stage` uses the term.
bool NestEmitter::is_needed_after(int t, int stage) const {
  for (int later = stage + 1; later < terms_.stages; ++later) {
    const std::vector<int> needed = closure(wanted(later), later);
    if (std::ranges::find(needed, t) != needed.end()) return true;
  }
  return false;
}

/// Reads what is kept, before anything waits for it.
std::string NestEmitter::keep_rows() {
  if (kept_ == 0) return {};
  const std::string count = std::to_string(kept_);
  std::string code = "constexpr int kKept = decltype(reach)::kWide ? " + count + " : 0;\n", loads;
  for (const int t : kept_terms_) {
    code += "f32v k_" + terms_.name(t) + "[" + count + "];\n";
    if (terms_.list[static_cast<std::size_t>(t)].kind == Term::Kind::kLeaf)
      loads += "k_" + terms_.name(t) + "[u] = " + read(t, true) + ";\n";
  }
  return code + kept_loop(loads);
}

/// `code` for each kept vector.
std::string NestEmitter::kept_loop(const std::string& code) const {
  const std::string extent = loops_.back().extent.to_string();
  return "#pragma GCC unroll 16\nfor (int u = 0; u < kKept; ++u) {\nconst int64_t j = u * kLanes;\n"
         "const auto lanes = " +
         mask(extent + " - j", "(" + extent + ") % kLanes == 0 && (" + extent + ") >= kKept * kLanes") +
         ";\n" + code + "}\n";
}

std::string NestEmitter::kept_pass(int stage, const std::vector<int>& reduces) {
  if (kept_ == 0) return {};
  in_kept_ = true;
  std::string body = pass_body(stage);
  in_kept_ = false;
  for (const int t : reduces) body += accumulate(t, "a_" + terms_.name(t) + "_0");
  return kept_loop(body);
}

}  // namespace lathe::catalog
