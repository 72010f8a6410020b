#include <algorithm>

#include "policy/catalog/emit/nest/nest.h"

namespace lathe::catalog {

/// Terms of the item itself that pass `stage` - 1 made known, with their stores. In column mode they are
/// computed anew for each vector where they are used, so only scalars appear here.
std::string NestEmitter::outer_terms(int stage, Stores stores) {
  std::string code;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    if (inner(term) || term.stage != stage) continue;
    if (mode_ == NestMode::kColumns && lanewise(term)) continue;
    if (term.kind != Term::Kind::kReduce) code += declare(static_cast<int>(t), stage, false);
    if (term.stored && stores == Stores::kWrite) code += store_text(static_cast<int>(t), false);
  }
  return code;
}

/// Stores of what column mode computes lane by lane outside the reduced loops.
std::string NestEmitter::column_stores(int stage) {
  std::string stores;
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    if (term.stored && !inner(term) && lanewise(term) && term.stage == stage)
      stores += store_text(static_cast<int>(t), false);
  }
  return stores.empty() || mode_ != NestMode::kColumns ? "" : per_block(with_column_terms(stage, stores));
}

/// Prefixes `code` with the lane-wise terms outside the reduced loops that it needs: every vector of a column
/// block computes them where they are used, and the compiler hoists them.
std::string NestEmitter::with_column_terms(int stage, std::string code) {
  for (std::size_t t = terms_.list.size(); t-- > 0;) {
    const Term& term = terms_.list[t];
    if (inner(term) || !lanewise(term) || term.stage > stage || term.kind == Term::Kind::kReduce) continue;
    if (mentions(code, terms_.name(static_cast<int>(t))))
      code = declare(static_cast<int>(t), stage, false) + code;
  }
  return code;
}

/// Of a reduced loop that vectors do not run along.
std::string NestEmitter::loop_head(std::size_t l) const {
  const std::string index = indices_[l], extent = loops_[l].extent.to_string();
  const std::string unroll =
      ahead_ > 1 ? "#pragma GCC unroll unrolled(reach, " + std::to_string(ahead_) + ")\n" : "";
  if (static_cast<int>(l) != split_)
    return unroll + "for (int64_t " + index + " = 0; " + index + " < " + extent + "; ++" + index + ") {\n";
  if (mode_ != NestMode::kColumns)
    return "for (int64_t " + index + " = first; " + index + " < last; ++" + index + ") {\n";
  const std::string all = "(" + extent + ") % " + std::to_string(chunk_) + " == 0 || ";
  return unroll + "for (int r = 0; r < " + std::to_string(depth_) + "; ++r) {\nconst int64_t " + index +
         " = first + " + (by_warps() ? "warp + r * kWarps" : "r") +
         ";\nconst bool in = " + (site_.target.fixed ? all : "") + index + " < last;\n";
}

std::string NestEmitter::pass(int stage) {
  const std::vector<int> reduces = reductions(stage);
  if (wanted(stage).empty()) return {};
  std::string body = pass_body(stage);
  const bool columns = mode_ == NestMode::kColumns;
  for (const int t : reduces) body += accumulate(t, "a_" + terms_.name(t) + (columns ? "[u]" : ""));
  std::string loops, closing;
  std::string from = "0", to = loops_.back().extent.to_string();
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    const bool vector = l + 1 == loops_.size() && !columns;
    if (vector && static_cast<int>(l) == split_) from = "first", to = "last";
    if (!loops_[l].reduced || vector) continue;
    loops += loop_head(l);
    closing += "}\n";
  }
  std::string code = declare_accumulators(reduces);
  if (columns) {
    body = with_column_terms(stage, body);
    code += loops + per_block(body) + closing;
    if (shared_ && warps_ > 1) code += join_block(reduces);
  } else {
    if (kept_ > 0) from = "kKept * kLanes";
    code +=
        loops + kept_pass(stage, reduces) + "{\n" + vector_loop(body, reduces, from, to) + "}\n" + closing;
  }
  return code + finish_reductions(reduces);
}

std::string NestEmitter::passes() {
  std::string code = keep_rows();
  for (int stage = 0; stage < terms_.stages; ++stage)
    code += outer_terms(stage) + column_stores(stage) + pass(stage);
  return code;
}

/// Loops over an item's neighbours: neither reduced nor along vectors.
Expr NestEmitter::items() const {
  std::vector<Expr> extents;
  for (std::size_t l = 0; l + 1 < loops_.size(); ++l)
    if (!loops_[l].reduced) extents.push_back(loops_[l].extent);
  const Expr blocks = Expr::apply("cdiv", loops_.back().extent, Expr::constant(block_floats()));
  return mode_ == NestMode::kColumns ? product(extents) * blocks : product(extents);
}

std::string NestEmitter::item_indices(const std::string& item) {
  std::vector<Loop> outer;
  std::vector<std::string> names;
  for (std::size_t l = 0; l + 1 < loops_.size(); ++l) {
    if (loops_[l].reduced) continue;
    outer.push_back(loops_[l]);
    names.push_back(indices_[l]);
  }
  if (mode_ != NestMode::kColumns)
    return outer.empty() ? "" : unflatten(item, outer, names, site_.target.cuda);
  const std::string count = "cdiv(" + loops_.back().extent.to_string() + ", kBlock)";
  const bool cuda = site_.target.cuda;
  std::string code =
      "const int64_t j0 = " + (cuda ? "residue(" + item + ", " + count + ")" : item + " % " + count) +
      " * kBlock;\n";
  if (!outer.empty())
    code +=
        "const int64_t outer = " + (cuda ? "quotient(" + item + ", " + count + ")" : item + " / " + count) +
        ";\n" + unflatten("outer", outer, names, site_.target.cuda);
  return code;
}

Status NestEmitter::run() {
  if (mode_ == NestMode::kColumns)
    for (const Term& term : terms_.list)
      if (term.kind == Term::Kind::kReduce && !lanewise(term))
        return Error{ErrorCode::kUnavailable, "a reduction whose operand does not run along the vectors"};
  choose();
  const std::string kernel = site_.prefix + (mode_ == NestMode::kRows      ? "_rows"
                                             : mode_ == NestMode::kColumns ? "_columns"
                                                                           : "_map");
  program_.add_pattern(mode_ == NestMode::kRows      ? "row_reduce"
                       : mode_ == NestMode::kColumns ? "column_reduce"
                                                     : "map");
  account();
  const Expr& last = loops_.back().extent;
  if (site_.target.cuda && is_plain_map()) return launch_map(kernel), Ok{};
  if (mode_ == NestMode::kFlat) {
    const std::string block = std::to_string(flat_block());
    std::string code = outer_terms(0);
    const bool cuda = site_.target.cuda;
    code += vector_loop(pass_body(0), {}, (cuda ? "item * " : "begin * ") + block,
                        "min(" + std::string(cuda ? "(item + 1)" : "end") + " * " + block + ", int64_t{" +
                            last.to_string() + "})");
    const Kernel flat{kernel, Expr::apply("cdiv", last, Expr::constant(flat_block())), written_,
                      for_each_reach(code)};
    if (cuda)
      program_.launch(flat);
    else
      program_.launch_ranges(flat);
    return Ok{};
  }
  if (split_ >= 0) return launch_split(kernel), Ok{};
  const std::string block = "constexpr int64_t kBlock = " + std::to_string(block_floats()) + ";\n";
  const std::string body = for_each_reach(item_indices("item") + passes());
  program_.launch({kernel, items(), written_, body, mode_ == NestMode::kColumns ? block : ""});
  return Ok{};
}

void NestEmitter::account() const {
  Work work;
  std::vector<Expr> extents;
  for (const Loop& loop : loops_) extents.push_back(loop.extent);
  const double elements = headline_count(site_.graph, extents);
  for (std::size_t t = 0; t < terms_.list.size(); ++t) {
    const Term& term = terms_.list[t];
    if ((term.kind == Term::Kind::kLeaf && !site_.graph.iotas.contains(term.value)) || term.stored)
      work.bytes += 4 * headline_count(site_.graph, site_.graph.type_of(term.value).shape);
    if (!inner(term)) continue;
    work.flops += elements * terms_.stages;
    if (term.heavy)
      work.special += elements * (cached_ == static_cast<int>(t) || term.stage + 1 >= terms_.stages ? 1 : 2);
  }
  if (!site_.target.cuda) work.flops += elements * (4.0 - std::min(unroll_, 4)) * 0.2;
  program_.add_work(work);
}

Status emit_nest(const Site& site, Program& program) { return NestEmitter(site, program).run(); }

}  // namespace lathe::catalog
