#include <algorithm>

#include "policy/catalog/emit/nest/nest.h"
#include "policy/catalog/lower/lowering.h"

// What one pass finds on a GPU though its definition takes two: of rows, the maximum and the sum of
// exp(x - maximum), which is kept for the maximum so far; of columns, the mean and the squared deviations
// from it. And sums with one term that is not zero, which is read without a pass.

namespace lathe::catalog {
namespace {

std::string text_of(const Terms& terms, int t) {
  const Term& term = terms.list[static_cast<std::size_t>(t)];
  return term.kind == Term::Kind::kApply ? formula_text(terms, term) : std::string();
}

}  // namespace

/// Finds sum(exp(x - max(x))).
bool NestEmitter::find_softmax() {
  for (std::size_t m = 0; m < terms_.list.size(); ++m) {
    const Term& top = terms_.list[m];
    if (top.kind != Term::Kind::kReduce || top.node->how != "max") continue;
    const std::string shifted = terms_.name(top.operands[0]) + " - " + terms_.name(static_cast<int>(m));
    for (std::size_t s = 0; s < terms_.list.size(); ++s) {
      const Term& sum = terms_.list[s];
      if (sum.kind != Term::Kind::kReduce || sum.node->how != "sum") continue;
      const Term& e = terms_.list[static_cast<std::size_t>(sum.operands[0])];
      const std::string text = text_of(terms_, sum.operands[0]);
      const bool direct = text == "lathe::exp(" + shifted + ")";
      const bool twice = e.operands.size() == 1 && text_of(terms_, e.operands[0]) == shifted &&
                         text == "lathe::exp(" + terms_.name(e.operands[0]) + ")";
      if (!direct && !twice) continue;
      leader_ = static_cast<int>(m);
      follower_ = static_cast<int>(s);
      return true;
    }
  }
  return false;
}

/// Finds sum((x - m)^2) for the mean m of x.
bool NestEmitter::find_moments() {
  std::vector<Expr> reduced;
  for (const Loop& loop : loops_)
    if (loop.reduced) reduced.push_back(loop.extent);
  const std::string scale = " * " + Lowering::reciprocal_count(reduced);
  for (std::size_t s = 0; s < terms_.list.size(); ++s) {
    const Term& sum = terms_.list[s];
    if (sum.kind != Term::Kind::kReduce || sum.node->how != "sum") continue;
    const Term& square = terms_.list[static_cast<std::size_t>(sum.operands[0])];
    if (square.kind != Term::Kind::kApply || square.operands.size() != 1) continue;
    const int centred = square.operands[0];
    const std::string name = terms_.name(centred);
    const Term& difference = terms_.list[static_cast<std::size_t>(centred)];
    if (text_of(terms_, sum.operands[0]) != name + " * " + name || difference.operands.size() != 2) continue;
    const int x = difference.operands[0], mean = difference.operands[1];
    if (text_of(terms_, centred) != terms_.name(x) + " - " + terms_.name(mean)) continue;
    const Term& centre = terms_.list[static_cast<std::size_t>(mean)];
    if (centre.kind != Term::Kind::kApply || centre.operands.size() != 1) continue;
    const Term& total = terms_.list[static_cast<std::size_t>(centre.operands[0])];
    if (total.kind != Term::Kind::kReduce || total.node->how != "sum" || total.operands[0] != x) continue;
    if (text_of(terms_, mean) != terms_.name(centre.operands[0]) + scale) continue;
    leader_ = centre.operands[0];
    follower_ = static_cast<int>(s);
    return true;
  }
  return false;
}

/// Finds sums over a row of `select(index == number, x, 0)`.
void NestEmitter::find_picks() {
  if (!site_.target.cuda || mode_ != NestMode::kRows) return;
  if (std::ranges::count_if(loops_, [](const Loop& loop) { return loop.reduced; }) > 1) return;
  for (std::size_t s = 0; s < terms_.list.size(); ++s) {
    Term& sum = terms_.list[s];
    if (sum.kind != Term::Kind::kReduce || sum.node->how != "sum") continue;
    const Term& chosen = terms_.list[static_cast<std::size_t>(sum.operands[0])];
    if (chosen.kind != Term::Kind::kApply || chosen.operands.size() != 3) continue;
    const int x = chosen.operands[0], index = chosen.operands[1], number = chosen.operands[2];
    const auto term = [&](int t) -> const Term& { return terms_.list[static_cast<std::size_t>(t)]; };
    if (text_of(terms_, sum.operands[0]) != "lathe::select(lathe::eq(" + terms_.name(index) + ", " +
                                                terms_.name(number) + "), " + terms_.name(x) + ", 0.0f * " +
                                                terms_.name(index) + ")")
      continue;
    const bool leaf = term(x).kind == Term::Kind::kLeaf && !site_.graph.iotas.contains(term(x).value);
    if (!leaf || !lanewise(term(x)) || !site_.graph.iotas.contains(term(index).value) || inner(term(number)))
      continue;
    picks_[static_cast<int>(s)] = {x, number};
    sum.kind = Term::Kind::kApply;
    sum.operands = {number};
  }
  if (!picks_.empty()) set_stages();
}

/// The passes that find each term, anew.
void NestEmitter::set_stages() {
  terms_.stages = 1;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    Term& term = terms_.list[t];
    term.stage = 0;
    for (const int operand : term.operands)
      term.stage = std::max(term.stage, terms_.list[static_cast<std::size_t>(operand)].stage);
    if (term.kind == Term::Kind::kReduce) ++term.stage;
    if (static_cast<int>(t) == follower_) term.stage = terms_.list[static_cast<std::size_t>(leader_)].stage;
    if (term.stored) terms_.stages = std::max(terms_.stages, term.stage + 1);
  }
}

void NestEmitter::choose_online() {
  if (!site_.target.cuda || !group_.reduces()) return;
  const bool rows = mode_ == NestMode::kRows;
  if (!(rows ? find_softmax() : find_moments())) return;
  const int usual = rows && (rows_are_few() || row_vectors() <= kMostKept) ? 0 : 1;
  if (site_.knob("online", {0, 1}, usual) == 0) {
    leader_ = follower_ = -1;
    return;
  }
  set_stages();
}

/// The term of a row that a sum of one term consists of; a formula otherwise.
std::string NestEmitter::pick_text(int t) {
  const auto [x, number] = picks_.at(t);
  std::vector<std::string> row = indices_;
  row.back().clear();
  const std::string& value = terms_.list[static_cast<std::size_t>(x)].value;
  return "pick(" + program_.parameter(value) + " + " + element(site_.graph, group_, loops_, value, row) +
         ", " + terms_.name(number) + ", " + loops_.back().extent.to_string() + ")";
}

/// `suffix`: which of several accumulators.
std::string NestEmitter::extend_online(const std::string& suffix) const {
  const Term& top = terms_.list[static_cast<std::size_t>(leader_)];
  const std::string operand = terms_.name(top.operands[0]);
  if (mode_ == NestMode::kColumns)
    return "extend(a_" + terms_.name(leader_) + suffix + ", " + operand +
           (guard_.empty() ? ", true);\n" : ", in);\n");
  return "extend_softmax(a_" + terms_.name(leader_) + suffix + ", a_" + terms_.name(follower_) + suffix +
         ", keep(lanes, " + operand + ", -kInfinity));\n";
}

/// Joins the accumulators and declares both results.
std::string NestEmitter::finish_online() {
  const std::string top = terms_.name(leader_), sum = terms_.name(follower_);
  std::string code;
  if (mode_ == NestMode::kColumns)
    return "f32v b_" + top + "[kBlock / kLanes], b_" + sum +
           "[kBlock / kLanes];\nfor (int u = 0; u < kBlock / kLanes; ++u) {\nb_" + top + "[u] = a_" + top +
           "[u].mean * a_" + top + "[u].count;\nb_" + sum + "[u] = a_" + top + "[u].squares;\n}\n";
  for (int u = 1; u < unroll_; ++u) {
    const std::string other = "_" + std::to_string(u);
    code += "join_softmax(a_" + top + "_0, a_" + sum + "_0, a_" + top + other + ", a_" + sum + other + ");\n";
  }
  code += "const float " + top + " = reduce_max" + turn() + "(a_" + top + "_0);\n";
  return code + "const float " + sum + " = reduce_add" + turn() + "(a_" + sum + "_0 * lathe::exp(a_" + top +
         "_0 - " + top + "));\n";
}

}  // namespace lathe::catalog
