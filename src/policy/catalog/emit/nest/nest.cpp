#include "policy/catalog/emit/nest/nest.h"

#include <algorithm>
#include <utility>

namespace lathe::catalog {

NestEmitter::NestEmitter(const Site& site, Program& program)
    : site_(site),
      group_(site.group),
      program_(program),
      loops_(merge_loops(site.graph, site.group)),
      terms_(collect_terms(site.graph, site.group, loops_)) {
  if (!group_.reduces()) {
    mode_ = loops_.size() == 1 ? NestMode::kFlat : NestMode::kMap;
  } else {
    mode_ = loops_.back().reduced ? NestMode::kRows : NestMode::kColumns;
  }
  for (std::size_t l = 0; l + 1 < loops_.size(); ++l) indices_.push_back("ix" + std::to_string(l));
  indices_.emplace_back("j");
}

bool NestEmitter::inner(const Term& term) const {
  if (mode_ == NestMode::kFlat || mode_ == NestMode::kMap) return term.runs.back();
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduced && term.runs[l]) return true;
  return false;
}

void NestEmitter::choose() {
  find_picks();
  choose_online();
  choose_cache();
  if (mode_ == NestMode::kColumns) {
    unroll_ = site_.knob(
        "unroll", site_.target.cuda ? std::vector<int>{1, 2} : std::vector<int>{1, 2, 4, 8, 16, 32, 64},
        site_.target.cuda ? 1 : 4);
    choose_split();
    if (site_.target.cuda) choose_ahead();
  } else if (mode_ == NestMode::kRows) {
    choose_split();
    choose_kept();
    unroll_ = site_.knob("unroll", {1, 2, 4, 8}, kept_ > 0 ? 1 : 4);
    if (depth_ > 0) unroll_ = std::min(unroll_, depth_);
  } else if (is_plain_map()) {
    choose_map();
  } else {
    unroll_ = site_.knob("unroll", {1, 2, 4, 8}, 2);
  }
  if (mode_ != NestMode::kFlat && !site_.target.cuda) return;
  const int stream = site_.knob(
      "stream", site_.target.cuda ? std::vector<int>{0, 4, 1, 5, 3, 2} : std::vector<int>{0, 1}, 0);
  streams_ = stream == 1 || stream == 2 || stream == 5;
  if (stream == 2 || stream == 3) hint_ = "load_past_cache(";
  if (stream > 3) hint_ = "load_to_stay(";
}

/// As many rows as fit registers: what is read, and what it is added to.
void NestEmitter::choose_ahead() {
  constexpr std::int64_t kMostRead = 1 << 14;  // fp32 numbers of a whole block's threads
  std::vector<int> allowed;
  for (const int rows : {1, 4, 8, 16})
    if (rows == 1 ||
        (rows * std::int64_t{site_.target.lanes} <= kMostRead && (depth_ == 0 || rows <= depth_)))
      allowed.push_back(rows);
  ahead_ = site_.knob("ahead", allowed, std::min(allowed.back(), unroll_ > 2 ? 4 : 8));
}

/// A costly value that a later pass needs again is left in the output that the last pass overwrites.
void NestEmitter::choose_cache() {
  if (terms_.stages < 2) return;
  std::string place;
  for (const Term& term : terms_.list) {
    const bool full = std::ranges::find(term.runs, false) == term.runs.end();
    if (!term.stored || !full || term.stage != terms_.stages - 1 || term.node->type.dtype != DType::kF32)
      continue;
    if (!site_.graph.is_input(program_.buffer(term.value))) place = term.value;
  }
  if (place.empty()) return;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    const bool full = std::ranges::find(term.runs, false) == term.runs.end();
    if (!term.heavy || !full || term.stage >= terms_.stages - 1) continue;
    if (!is_needed_after(static_cast<int>(t), term.stage)) continue;
    if (site_.knob("cache", {0, 1}, 1) == 0) return;
    cached_ = static_cast<int>(t);
    cache_ = place;
    return;
  }
}

std::string NestEmitter::address(const std::string& value) const {
  return element(site_.graph, group_, loops_, value, indices_);
}

std::string NestEmitter::read(int t, bool inside) {
  const Term& term = terms_.list[static_cast<std::size_t>(t)];
  if (site_.graph.iotas.contains(term.value)) return iota_text(group_, loops_, term, indices_);
  const std::string at = program_.parameter(term.value);
  const TensorDecl* tensor = site_.graph.task->find_tensor(term.value);
  if (tensor != nullptr && tensor->role == Role::kScalar) return "static_cast<float>(" + at + ")";
  const bool lanes = lanewise(term) && (inside || mode_ == NestMode::kColumns);
  const bool once = std::ranges::find(term.runs, false) == term.runs.end();
  const bool f32 = site_.graph.type_of(term.value).dtype == DType::kF32;
  const std::string function = once && f32 ? hint_ : "load(";
  if (lanes) vectors_.insert(at);
  if (lanes) return function + at + " + " + address(term.value) + ", lanes)";
  return "static_cast<float>(" + at + "[" + address(term.value) + "])";
}

std::string NestEmitter::declare(int t, int stage, bool inside) {
  const Term& term = terms_.list[static_cast<std::size_t>(t)];
  std::string value;
  if (in_kept_ && is_kept(t)) {
    value = "k_" + terms_.name(t) + "[u]";
    if (!is_left_over(t, stage)) value += " = " + formula_text(terms_, term);
  } else if (t == cached_ && term.stage < stage) {
    vectors_.insert(program_.parameter(cache_));
    value = "load(" + program_.parameter(cache_) + " + " + address(cache_) + ", lanes)";
  } else if (picks_.contains(t)) {
    value = pick_text(t);
  } else {
    value = term.kind == Term::Kind::kLeaf ? read(t, inside) : formula_text(terms_, term);
  }
  const bool lanes = lanewise(term) && (inside || mode_ == NestMode::kColumns);
  return "const " + std::string(lanes ? "f32v " : "float ") + terms_.name(t) + " = " + value + ";\n";
}

std::vector<int> NestEmitter::reductions(int stage) const {
  std::vector<int> found;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    if (term.kind == Term::Kind::kReduce && term.stage == stage + 1) found.push_back(static_cast<int>(t));
  }
  return found;
}

/// What pass `stage` must compute: operands of its reductions, values stored as soon as they are known, and
/// the value to be cached.
std::vector<int> NestEmitter::wanted(int stage) const {
  std::vector<int> targets;
  for (const int reduce : reductions(stage))
    if (reduce != follower_) targets.push_back(terms_.list[static_cast<std::size_t>(reduce)].operands[0]);
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    const bool now = term.stored && term.stage == stage && inner(term);
    const bool left = in_kept_ ? is_kept(static_cast<int>(t)) && term.kind != Term::Kind::kLeaf
                               : static_cast<int>(t) == cached_;
    if (now || (left && term.stage == stage)) targets.push_back(static_cast<int>(t));
  }
  return targets;
}

/// The inner terms that `targets` need, operands first. What an earlier pass left needs nothing.
std::vector<int> NestEmitter::closure(const std::vector<int>& targets, int stage) const {
  std::vector<bool> needed(terms_.list.size(), false);
  for (const int target : targets) needed[static_cast<std::size_t>(target)] = true;
  for (std::size_t t = terms_.list.size(); t-- > 0;) {
    const Term& term = terms_.list[t];
    if (!needed[t] || !inner(term)) continue;
    if (is_left_over(static_cast<int>(t), stage)) continue;
    for (const int operand : term.operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  std::vector<int> order;
  for (std::size_t t = 0; t < terms_.list.size(); ++t)
    if (needed[t] && inner(terms_.list[t])) order.push_back(static_cast<int>(t));
  return order;
}

std::string NestEmitter::store_text(int t, bool inside) {
  const Term& term = terms_.list[static_cast<std::size_t>(t)];
  const std::string place = t == cached_ && !term.stored ? cache_ : term.value;
  written_.insert(program_.buffer(place));
  const std::string at = program_.parameter(place);
  std::string guard;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (!loops_[l].reduced && !term.runs[l] && l + 1 < loops_.size() && mode_ != NestMode::kFlat)
      guard += (guard.empty() ? "if (" : " && ") + indices_[l] + " == 0";
  if (!only_.empty() && !inner(term)) guard += (guard.empty() ? "if (" : " && ") + only_;
  if (!guard.empty()) guard += ") ";
  if (lanewise(term) && (inside || mode_ == NestMode::kColumns)) {
    vectors_.insert(at);
    const std::string function = streams_ && !is_input_buffer(place) ? "store_past_cache" : "store";
    return guard + function + "(" + at + " + " + address(place) + ", " + terms_.name(t) + ", lanes);\n";
  }
  const std::string type(info(term.node->type.dtype).c_name);
  return guard + at + "[" + address(place) + "] = static_cast<" + type + ">(" + terms_.name(t) + ");\n";
}

std::string NestEmitter::mask(const std::string& lanes, const std::string& all) const {
  if (!site_.target.cuda) return "first_lanes(" + lanes + ")";
  if (site_.target.fixed && !all.empty()) return "leading_lanes<(" + all + ")>(reach, " + lanes + ")";
  return "reach.first_lanes(" + lanes + ")";
}

/// On a GPU: the kernel's text once for tensors that vectors divide, and once for any. Of fixed dims it is
/// known which.
std::string NestEmitter::for_each_reach(const std::string& code) {
  if (!site_.target.cuda) return code;
  std::string text = code;
  for (std::size_t at = 0; (at = text.find("#pragma GCC unroll", at)) != std::string::npos;)
    text.replace(at, 18, "#pragma unroll");
  for (std::size_t at = 0; (at = text.find(" __attribute__((always_inline))", at)) != std::string::npos;)
    text.erase(at, 31);
  const std::string run = "const auto run = [&](auto reach) {\n" + text + "};\n";
  std::string divides = "kVector == 1 || (" + loops_.back().extent.to_string() + ") % kVector == 0";
  const auto buffers = std::exchange(vectors_, {});
  if (site_.target.fixed)
    return run + "if constexpr (" + divides + ") {\nrun(wide_reach());\n} else {\nrun(any_reach());\n}\n";
  for (const std::string& buffer : buffers) divides += " && is_aligned<4 * kVector>(" + buffer + ")";
  return run + "if (" + divides + ") {\nrun(wide_reach());\n} else {\nrun(any_reach());\n}\n";
}

bool NestEmitter::is_input_buffer(const std::string& value) const {
  return site_.graph.is_input(program_.buffer(value));
}

}  // namespace lathe::catalog
