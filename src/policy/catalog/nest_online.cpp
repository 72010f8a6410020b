#include <algorithm>

#include "policy/catalog/nest.h"

// Long rows on a GPU: a maximum and the sum of exp(x - maximum) come out of one pass, which keeps the sum for
// the maximum so far.

namespace lathe::catalog {

/// Finds sum(exp(x - max(x))).
bool NestEmitter::find_online() {
  const auto text = [&](int t) {
    const Term& term = terms_.list[static_cast<std::size_t>(t)];
    return term.kind == Term::Kind::kApply ? formula_text(terms_, term) : std::string();
  };
  for (std::size_t m = 0; m < terms_.list.size(); ++m) {
    const Term& top = terms_.list[m];
    if (top.kind != Term::Kind::kReduce || top.node->how != "max") continue;
    const std::string shifted = terms_.name(top.operands[0]) + " - " + terms_.name(static_cast<int>(m));
    for (std::size_t s = 0; s < terms_.list.size(); ++s) {
      const Term& sum = terms_.list[s];
      if (sum.kind != Term::Kind::kReduce || sum.node->how != "sum") continue;
      const Term& e = terms_.list[static_cast<std::size_t>(sum.operands[0])];
      const bool direct = text(sum.operands[0]) == "lathe::exp(" + shifted + ")";
      const bool twice = e.operands.size() == 1 && text(e.operands[0]) == shifted &&
                         text(sum.operands[0]) == "lathe::exp(" + terms_.name(e.operands[0]) + ")";
      if (!direct && !twice) continue;
      online_max_ = static_cast<int>(m);
      online_sum_ = static_cast<int>(s);
      return true;
    }
  }
  return false;
}

void NestEmitter::choose_online() {
  if (!writer_.cuda() || mode_ != NestMode::kRows || !find_online()) return;
  const bool online = site_.knob("online", {0, 1}, rows_are_few() || row_vectors() <= kMostKept ? 0 : 1) == 1;
  if (!online) {
    online_max_ = online_sum_ = -1;
    return;
  }
  terms_.stages = 1;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    Term& term = terms_.list[t];
    term.stage = 0;
    for (const int operand : term.operands)
      term.stage = std::max(term.stage, terms_.list[static_cast<std::size_t>(operand)].stage);
    if (term.kind == Term::Kind::kReduce) ++term.stage;
    if (static_cast<int>(t) == online_sum_)
      term.stage = terms_.list[static_cast<std::size_t>(online_max_)].stage;
    if (term.stored) terms_.stages = std::max(terms_.stages, term.stage + 1);
  }
}

/// `suffix`: which of several accumulators.
std::string NestEmitter::extend_online(const std::string& suffix) const {
  const Term& top = terms_.list[static_cast<std::size_t>(online_max_)];
  return "extend_softmax(a_" + terms_.name(online_max_) + suffix + ", a_" + terms_.name(online_sum_) +
         suffix + ", keep(lanes, " + terms_.name(top.operands[0]) + ", -kInfinity));\n";
}

/// Joins the accumulators and declares both results.
std::string NestEmitter::finish_online() const {
  const std::string top = terms_.name(online_max_), sum = terms_.name(online_sum_);
  std::string code;
  for (int u = 1; u < unroll_; ++u) {
    const std::string other = "_" + std::to_string(u);
    code += "join_softmax(a_" + top + "_0, a_" + sum + "_0, a_" + top + other + ", a_" + sum + other + ");\n";
  }
  code += "const float " + top + " = reduce_max(a_" + top + "_0);\n";
  return code + "const float " + sum + " = reduce_add(a_" + sum + "_0 * lathe::exp(a_" + top + "_0 - " + top +
         "));\n";
}

}  // namespace lathe::catalog
