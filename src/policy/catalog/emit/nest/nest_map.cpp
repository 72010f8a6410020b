#include <algorithm>

#include "policy/catalog/emit/nest/nest.h"

// Maps on a GPU: a team reads some vectors of some neighbouring rows, all before it computes anything, and is
// done. What rows have in common is read once for them.

namespace lathe::catalog {
namespace {

constexpr int kMostRead = 8;    ///< vectors of a thread
constexpr int kMostBlocks = 8;  ///< of a multiprocessor, with 256 threads each

}  // namespace

/// Whether all that is stored runs along vectors.
bool NestEmitter::is_plain_map() const {
  if (!site_.target.cuda || (mode_ != NestMode::kFlat && mode_ != NestMode::kMap)) return false;
  return std::ranges::none_of(terms_.list, [&](const Term& term) { return term.stored && !inner(term); });
}

void NestEmitter::choose_map() {
  bool common = false;
  std::int64_t vectors = row_vectors();
  for (std::size_t l = 0; l + 1 < loops_.size(); ++l) vectors *= headline(site_.graph, loops_[l].extent);
  bool of_rows = false;  // which lie outside the tensor beyond its last row
  for (const Term& term : terms_.list) {
    if (mode_ == NestMode::kFlat || term.kind != Term::Kind::kLeaf) continue;
    common |= lanewise(term) && !term.runs[loops_.size() - 2];
    of_rows |= !lanewise(term) && term.runs[loops_.size() - 2];
  }
  common &= !of_rows;
  const std::int64_t blocks =
      std::int64_t{site_.target.multiprocessors} * kMostBlocks * 256 / site_.target.team;
  const auto fitting = [&](int most) {
    while (most > 1 && vectors / most < blocks) most /= 2;
    return most;
  };
  if (common) rows_ = site_.knob("rows", {1, 2, 4, 8}, fitting(4));
  std::vector<int> allowed;
  for (const int count : {1, 2, 4, 8})
    if (count * rows_ <= kMostRead) allowed.push_back(count);
  unroll_ = site_.knob("unroll", allowed, common ? 1 : fitting(2));
}

std::string NestEmitter::map_text() {
  const std::vector<int> order = closure(wanted(0), 0);
  const std::size_t row = loops_.size() - 2;  // the loop whose neighbours the team takes
  const std::string vectors = std::to_string(unroll_), rows = std::to_string(rows_);
  const std::string extent = loops_.back().extent.to_string();
  const std::string whole = "(" + extent + ") % (" + vectors + " * kLanes) == 0";
  const std::string over_vectors = "#pragma GCC unroll 8\nfor (int u = 0; u < " + vectors +
                                   "; ++u) {\nconst int64_t j = j0 + u * kLanes;\n";
  const std::string lanes = "const auto lanes = " + mask(extent + " - j", whole) + ";\n";
  std::string over_rows = lanes, closing;
  if (rows_ > 1) {
    const std::string count = loops_[row].extent.to_string(), index = indices_[row];
    over_rows = "#pragma GCC unroll 8\nfor (int i = 0; i < " + rows + "; ++i) {\nconst int64_t " + index +
                " = first + i;\nconst auto lanes = " +
                mask(index + " < " + count + " ? " + extent + " - j : 0",
                     whole + " && (" + count + ") % " + rows + " == 0") +
                ";\n";
    closing = "}\n";
  }
  std::string arrays, common, own, compute;
  for (const int t : order) {
    const Term& term = terms_.list[static_cast<std::size_t>(t)];
    const std::string name = terms_.name(t);
    if (term.kind != Term::Kind::kLeaf || site_.graph.iotas.contains(term.value)) {
      compute += declare(t, 0, true);
      continue;
    }
    const bool each = rows_ > 1 && term.runs[row];
    const std::string at = "k_" + name + (each ? "[u * " + rows + " + i]" : "[u]");
    arrays += "f32v k_" + name + "[" + vectors + (each ? " * " + rows : "") + "];\n";
    (each || rows_ == 1 ? own : common) += at + " = " + read(t, true) + ";\n";
    compute += "const f32v " + name + " = " + at + ";\n";
  }
  for (const int t : order)
    if (terms_.list[static_cast<std::size_t>(t)].stored) compute += store_text(t, true);
  if (!common.empty()) common = "{\n" + lanes + common + "}\n";
  std::string outer = outer_terms(0);
  if (rows_ > 1) compute = outer + compute, outer.clear();
  return outer + arrays + over_vectors + common + over_rows + own + closing + "}\n" + over_vectors +
         over_rows + compute + closing + "}\n";
}

void NestEmitter::launch_map(const std::string& kernel) {
  std::vector<Loop> outer(loops_.begin(), loops_.end() - 1);
  std::vector<std::string> names(indices_.begin(), indices_.end() - 1);
  const Expr blocks = Expr::apply("cdiv", loops_.back().extent, Expr::constant(block_floats()));
  std::vector<Expr> extents = {blocks};
  std::string code;
  if (outer.empty()) {
    code += "const int64_t j0 = item * " + std::to_string(block_floats()) + ";\n";
  } else {
    if (rows_ > 1) {
      outer.back().extent = Expr::apply("cdiv", outer.back().extent, Expr::constant(rows_));
      names.back() = "group";
    }
    for (const Loop& loop : outer) extents.push_back(loop.extent);
    code += "const int64_t own = quotient(item, " + blocks.to_string() + "), j0 = (item - own * " +
            factor(blocks) + ") * " + std::to_string(block_floats()) + ";\n" +
            unflatten("own", outer, names, true);
    if (rows_ > 1) code += "const int64_t first = group * " + std::to_string(rows_) + ";\n";
  }
  code += map_text();
  const std::string body = for_each_reach(code);
  program_.launch({kernel, product(extents), written_, body});
}

}  // namespace lathe::catalog
