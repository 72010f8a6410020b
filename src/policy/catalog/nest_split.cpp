#include <algorithm>

#include "policy/catalog/nest.h"

// Long reductions on a GPU: several teams share an item's reduced loop. Each pass is a kernel that leaves one
// result a team; the next one begins by joining them, in the same order every time.

namespace lathe::catalog {
namespace {

constexpr std::int64_t kFullDevice = 1 << 16;   ///< threads below which a device waits for memory
constexpr int kThreadsOfMultiprocessor = 1024;  ///< that hide the latency of memory
constexpr std::int64_t kFewRows = 256;          ///< fewer blocks leave multiprocessors without work
constexpr int kThreadsThatCombine = 256;
constexpr std::int64_t kFewestRows = 8;  ///< of a share

}  // namespace

bool NestEmitter::rows_are_few() const {
  const std::int64_t teams = writer_.headline(items());
  return mode_ == NestMode::kRows ? teams < kFewRows : teams * writer_.team() < kFullDevice;
}

void NestEmitter::choose_split() {
  if (!writer_.cuda() || online_max_ >= 0 || (mode_ != NestMode::kRows && mode_ != NestMode::kColumns))
    return;
  for (const Term& term : terms_.list)
    if (term.kind == Term::Kind::kReduce && term.node->how.starts_with("arg")) return;
  int widest = -1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduced &&
        (widest < 0 || writer_.headline(loops_[l].extent) >
                           writer_.headline(loops_[static_cast<std::size_t>(widest)].extent)))
      widest = static_cast<int>(l);
  const Expr& extent = loops_[static_cast<std::size_t>(widest)].extent;
  const bool along = widest + 1 == static_cast<int>(loops_.size());
  const std::int64_t fewest = along ? std::int64_t{4} * writer_.lanes() : kFewestRows;
  const bool few = rows_are_few() && writer_.headline(extent) > fewest;
  const int usual = std::max(1, kThreadsOfMultiprocessor / writer_.team());
  const int share = site_.knob("split", {0, 1, 2, 4, 8, 16, 32}, few ? usual : 0);
  if (share == 0) return;
  const Expr wanted = Expr::apply("cdiv", Expr::symbol("sm_count") * Expr::constant(share), items());
  splits_ = Expr::apply("min", wanted, Expr::apply("cdiv", extent, Expr::constant(fewest)));
  split_ = widest;
}

/// Where the team's result number `number` of an item lies: neighbouring teams' in rows, lanes in columns.
std::string NestEmitter::part(int t, const std::string& number) const {
  const std::string at = "p_" + parts_.at(t) + " + ";
  if (mode_ != NestMode::kColumns) return at + "own * splits + " + number;
  const bool outer = std::ranges::count_if(loops_, [](const Loop& loop) { return !loop.reduced; }) > 1;
  return at + "(" + (outer ? "outer * splits + " : "") + number + ") * " + factor(loops_.back().extent) +
         " + j";
}

/// Declares the result of an earlier pass, from what its teams left.
std::string NestEmitter::combine_parts(int t) {
  const std::string name = "a_" + terms_.name(t);
  std::string code = declare_accumulators({t});
  if (mode_ != NestMode::kColumns) {
    code +=
        "for (int64_t at = 0; at < splits; at += kLanes) {\nconst maskv lanes = first_lanes(splits - at);\n" +
        join(t, name + "_0", "keep(lanes, load(" + part(t, "at") + ", lanes), " + neutral(t) + ")") + "}\n";
    return code + finish_reductions({t});
  }
  vectors_.insert("p_" + parts_.at(t));
  code +=
      "#pragma GCC unroll unrolled(reach, 8)\nfor (int64_t s = " + std::string(by_warps_ ? "split" : "0") +
      "; s < splits; s += " + (by_warps_ ? "blockDim.x / 32" : "1") + ") {\n" +
      per_block(join(t, name + "[u]", "load(" + part(t, "s") + ", lanes)")) + "}\n";
  if (by_warps_)
    code += "for (f32v& mine : " + name + ") mine = join_warps(mine, [](f32v a, f32v b) {\n" +
            join(t, "a", "b") + "return a;\n});\n";
  return code + finish_reductions({t});
}

/// Leaves what this team found in pass `stage`.
std::string NestEmitter::write_parts(int stage) {
  std::string code;
  for (const int t : reductions(stage)) {
    const std::string name = terms_.name(t);
    const bool columns = mode_ == NestMode::kColumns;
    std::vector<Expr> extents = {splits_};
    for (std::size_t l = 0; l < loops_.size(); ++l)
      if (!loops_[l].reduced) extents.push_back(loops_[l].extent);
    parts_[t] = writer_.scratch(site_.prefix + "_" + name, product(extents));
    written_.insert(parts_[t]);
    if (columns) vectors_.insert("p_" + parts_[t]);
    code += columns ? per_block("store(" + part(t, "split") + ", " + name + ", lanes);\n")
                    : "*(" + part(t, "split") + ") = " + name + ";\n";
  }
  return code;
}

void NestEmitter::launch_split(const std::string& kernel) {
  const bool columns = mode_ == NestMode::kColumns;
  const Expr& whole = loops_[static_cast<std::size_t>(split_)].extent;
  const std::string extent = whole.to_string();
  Expr chunk = Expr::apply("cdiv", whole, splits_);
  if (split_ + 1 == static_cast<int>(loops_.size()))
    chunk = Expr::apply("align", chunk, Expr::constant(writer_.lanes()));
  const std::string block =
      columns ? "constexpr int64_t kBlock = " + std::to_string(block_floats()) + ";\n" : "";
  for (int stage = 0; stage < terms_.stages; ++stage) {
    const bool shared = !wanted(stage).empty();
    writer_.value("splits", splits_);
    writer_.value("shares", items());
    writer_.value("chunk", chunk);
    written_.clear();
    const bool by_warps = columns && !shared && writer_.team() == 32;
    std::string code = "for (int64_t item = begin; item < end; ++item) {\n";
    if (by_warps) code.clear();
    by_warps_ = by_warps;
    code += shared
                ? "const int64_t split = quotient(item, shares), own = item - split * shares;\n"
                : "const int64_t own = item, split = " + std::string(by_warps_ ? "threadIdx.x / 32" : "0") +
                      ";\n";
    if (shared)
      code += "const int64_t first = split * chunk, last = min(first + chunk, int64_t{" + extent + "});\n";
    code += item_indices("own");
    for (int earlier = 0; earlier <= stage; ++earlier) {
      if (earlier > 0)
        for (const int t : reductions(earlier - 1)) code += combine_parts(t);
      code += outer_terms(earlier, earlier == stage ? Stores::kWrite : Stores::kLeaveOut);
    }
    code += column_stores(stage) + pass(stage) + write_parts(stage) + (by_warps ? "" : "}\n");
    code = block + for_each_reach(code);
    const std::string number = terms_.stages > 1 ? std::to_string(stage) : "";
    if (by_warps) {
      writer_.launch_blocks(kernel + number, items(), kThreadsThatCombine, written_, code);
    } else {
      writer_.launch(kernel + number, shared ? items() * splits_ : items(), written_, code);
    }
  }
}

}  // namespace lathe::catalog
