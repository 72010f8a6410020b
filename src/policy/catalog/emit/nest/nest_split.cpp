#include <algorithm>

#include "policy/catalog/emit/nest/nest.h"

// Long reductions on a GPU: several shares of an item's reduced loop, each a team's, or a block's whose warps
// take turns with the rows of a column block. Each pass is a kernel that leaves one result a share; they are
// joined in the same order every time, by the next kernel or by the last share to end.

namespace lathe::catalog {
namespace {

constexpr std::int64_t kFullDevice = 1 << 16;   ///< threads below which a device waits for memory
constexpr int kThreadsOfMultiprocessor = 1024;  ///< that hide the latency of memory
constexpr std::int64_t kFewRows = 256;          ///< fewer blocks leave multiprocessors without work
constexpr int kThreadsThatCombine = 256;
constexpr std::int64_t kFewestRows = 8;     ///< of a share
constexpr std::int64_t kMostShares = 512;   ///< that one accumulator of a column joins
constexpr int kShortShare = 4;              ///< vectors or rows: shorter ones cost more than they gain
constexpr std::int64_t kLongestSum = 1024;  ///< terms of one fp32 accumulator whose error stays small

}  // namespace

bool NestEmitter::rows_are_few() const {
  const std::int64_t teams = headline(site_.graph, items());
  return mode_ == NestMode::kRows ? teams < kFewRows : teams * site_.target.team < kFullDevice;
}

void NestEmitter::choose_split() {
  const bool rows = mode_ == NestMode::kRows;
  if (!site_.target.cuda || (rows && leader_ >= 0) || (!rows && mode_ != NestMode::kColumns)) return;
  for (const Term& term : terms_.list)
    if (term.kind == Term::Kind::kReduce && term.node->how.starts_with("arg")) return;
  int widest = -1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduced &&
        (widest < 0 || headline(site_.graph, loops_[l].extent) >
                           headline(site_.graph, loops_[static_cast<std::size_t>(widest)].extent)))
      widest = static_cast<int>(l);
  if (by_warps()) warps_ = site_.knob("warps", {4, 8, 16, 32}, 8);
  split_ = widest;
  choose_depth();
  if (depth_ == 0) split_ = -1, warps_ = 1;
  if (depth_ > 0) join_ = site_.knob("join", {0, 1}, 0) == 1;
}

/// The longest shares that still occupy the device.
void NestEmitter::choose_depth() {
  const Expr& extent = loops_[static_cast<std::size_t>(split_)].extent;
  const bool along = split_ + 1 == static_cast<int>(loops_.size());
  const std::int64_t length = headline(site_.graph, extent), step = along ? site_.target.lanes : warps_;
  const bool few = rows_are_few() && length > (along ? std::int64_t{4} * site_.target.lanes : kFewestRows);
  const int threads = by_warps() ? warps_ * 32 : site_.target.team;
  const std::int64_t wanted = std::int64_t{site_.target.multiprocessors} * kThreadsOfMultiprocessor / threads;
  std::vector<int> allowed;
  if (!few || length / (along ? site_.target.lanes : 1) <= kLongestSum) allowed.push_back(0);
  const std::int64_t joined = kMostShares * (by_warps() ? kThreadsThatCombine / 32 : 1);
  int usual = -1;
  for (int depth = 1; depth <= kLongestSum; depth *= 2) {
    const std::int64_t shares = (length - 1) / (step * depth) + 1,
                       teams = shares * headline(site_.graph, items());
    if (!along && shares > joined && depth < kLongestSum) continue;
    allowed.push_back(depth);
    const bool enough = teams >= wanted || (depth <= kShortShare && teams >= site_.target.multiprocessors);
    if (usual < 0 || enough) usual = depth;
  }
  if (!few && allowed.front() == 0) usual = 0;
  depth_ = site_.knob("depth", allowed, usual);
  chunk_ = step * depth_;
  if (depth_ > 0) splits_ = Expr::apply("cdiv", extent, Expr::constant(chunk_));
}

/// Where the result of the item's share `number` lies: neighbouring shares' in rows, lanes in columns.
std::string NestEmitter::part(int t, const std::string& number) const {
  const std::string at = "p_" + parts_.at(t) + " + ";
  if (mode_ != NestMode::kColumns) return at + "own * splits + " + number;
  const bool outer = std::ranges::count_if(loops_, [](const Loop& loop) { return !loop.reduced; }) > 1;
  return at + "(" + (outer ? "outer * splits + " : "") + number + ") * " + factor(loops_.back().extent) +
         " + j";
}

/// Declares the result of an earlier pass, from what its shares left.
std::string NestEmitter::combine_parts(int t) {
  if (t == follower_) return {};
  const std::string name = "a_" + terms_.name(t), read = fresh_ ? "load_fresh(" : "load(";
  std::string code = declare_accumulators({t});
  if (mode_ != NestMode::kColumns) {
    code +=
        "for (int64_t at = 0; at < splits; at += kLanes) {\nconst maskv lanes = first_lanes(splits - at);\n" +
        join(t, name + "_0", "keep(lanes, " + read + part(t, "at") + ", lanes), " + neutral(t) + ")") + "}\n";
    return code + finish_reductions({t});
  }
  vectors_.insert("p_" + parts_.at(t));
  const std::string count = by_warps() ? "kWarps" : "1";
  guard_ = "(" + splits_.to_string() + ") % " + count + " == 0";
  const std::string value = "keep(lanes, " + read + part(t, "s") + ", lanes), " + neutral(t) + ")";
  const std::string body = per_block(t == leader_ ? combine_moments() : join(t, name + "[u]", value));
  guard_.clear();
  code += "#pragma GCC unroll unrolled(reach, 8)\nfor (int64_t r = 0; r < cdiv(splits, " + count +
          "); ++r) {\nconst int64_t s = " + (by_warps() ? "warp + r * kWarps" : "r") +
          ";\nconst bool in = s < splits;\n" + body + "}\n";
  if (by_warps()) code += join_block({t});
  return code + (t == leader_ ? finish_online() : finish_reductions({t}));
}

/// Of the moments of share `s`.
std::string NestEmitter::combine_moments() const {
  const std::string read = fresh_ ? "load_fresh(" : "load(";
  std::string count = "min(int64_t{" + std::to_string(chunk_) + "}, " +
                      loops_[static_cast<std::size_t>(split_)].extent.to_string() + " - s * " +
                      std::to_string(chunk_) + ")";
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduced && static_cast<int>(l) != split_) count += " * " + factor(loops_[l].extent);
  const std::string name = "a_" + terms_.name(leader_) + "[u]";
  return "moments other;\nother.mean = " + read + part(leader_, "s") + ", lanes);\nother.squares = " + read +
         part(follower_, "s") + ", lanes);\nother.count = in ? static_cast<float>(" + count + ") : 0.0f;\n" +
         name + " = joined(" + name + ", other);\n";
}

/// What the block's warps found becomes one result, which all of them have.
std::string NestEmitter::join_block(const std::vector<int>& reduces) const {
  std::string code;
  for (const int t : reduces) {
    if (t == follower_) continue;
    const std::string name = "a_" + terms_.name(t);
    code += t == leader_
                ? "for (moments& mine : " + name + ") mine = join_warps<kWarps>(mine);\n"
                : "for (f32v& mine : " + name + ") mine = join_warps<kWarps>(mine, [](f32v a, f32v b) {\n" +
                      join(t, "a", "b") + "return a;\n});\n";
  }
  return code;
}

/// Leaves what this share found in pass `stage`.
std::string NestEmitter::write_parts(int stage) {
  std::string code;
  for (const int t : reductions(stage)) {
    const std::string name = terms_.name(t);
    const bool columns = mode_ == NestMode::kColumns;
    std::vector<Expr> extents = {splits_};
    for (std::size_t l = 0; l < loops_.size(); ++l)
      if (!loops_[l].reduced) extents.push_back(loops_[l].extent);
    parts_[t] = program_.scratch(site_.prefix + "_" + name, product(extents));
    written_.insert(parts_[t]);
    if (columns) vectors_.insert("p_" + parts_[t]);
    std::string value = name;
    if (columns && t == leader_) value = "a_" + name + "[u].mean";
    if (columns && t == follower_) value = "a_" + terms_.name(leader_) + "[u].squares";
    code += columns ? per_block((by_warps() ? "if (warp == 0) store(" : "store(") + part(t, "split") + ", " +
                                value + ", lanes);\n")
                    : "*(" + part(t, "split") + ") = " + value + ";\n";
  }
  return code;
}

/// The last share to come by finds the results of pass `stage` and stores what comes of them.
std::string NestEmitter::join_shares(int stage) {
  const std::string done = program_.counters(site_.prefix + "_done", items());
  written_.insert(done);
  only_ = by_warps() ? "warp == 0" : "";
  fresh_ = true;
  std::string code = "if (is_last_share<" + std::string(by_warps() ? "true" : "false") + ">(p_" + done +
                     " + own, splits)) {\n";
  for (const int t : reductions(stage)) code += combine_parts(t);
  code += outer_terms(stage + 1) + column_stores(stage + 1) + "}\n";
  fresh_ = false;
  return code;
}

/// One kernel's text: pass `stage`, or, where nothing is left to pass over, what the last pass makes known.
std::string NestEmitter::share_text(int stage, bool shared) {
  const std::string extent = loops_[static_cast<std::size_t>(split_)].extent.to_string();
  const std::string chunk = std::to_string(chunk_);
  const int warps = shared ? warps_ : kThreadsThatCombine / 32;
  std::string code = by_warps() ? "constexpr int kWarps = " + std::to_string(warps) +
                                      ";\nconst int warp = static_cast<int>(threadIdx.x) / 32;\n"
                                : "";
  code += shared
              ? "const int64_t split = quotient(item, shares), own = item - split * shares;\nconst int64_t "
                "first = split * " +
                    chunk + ", last = min(first + " + chunk + ", int64_t{" + extent + "});\n"
              : "const int64_t own = item;\n";
  only_ = shared ? "split == 0" : by_warps() ? "warp == 0" : "";
  code += item_indices("own");
  for (int earlier = 0; earlier <= stage; ++earlier) {
    if (earlier > 0)
      for (const int t : reductions(earlier - 1)) code += combine_parts(t);
    code += outer_terms(earlier, earlier == stage ? Stores::kWrite : Stores::kLeaveOut);
  }
  code += column_stores(stage);
  shared_ = shared;
  if (shared && mode_ == NestMode::kColumns) guard_ = "(" + extent + ") % " + chunk + " == 0";
  code += pass(stage);
  shared_ = false;
  guard_.clear();
  code += write_parts(stage);
  const bool joins = join_ && stage + 2 == terms_.stages && wanted(stage + 1).empty();
  if (joins) code += join_shares(stage);
  return code;
}

void NestEmitter::launch_split(const std::string& kernel) {
  const std::string block = mode_ == NestMode::kColumns
                                ? "constexpr int64_t kBlock = " + std::to_string(block_floats()) + ";\n"
                                : "";
  const int stages = join_ && wanted(terms_.stages - 1).empty() ? terms_.stages - 1 : terms_.stages;
  program_.value("splits", splits_);
  program_.value("shares", items());
  for (int stage = 0; stage < stages; ++stage) {
    const bool shared = !wanted(stage).empty();
    written_.clear();
    const std::string code = for_each_reach(share_text(stage, shared));
    const std::string name = kernel + (stages > 1 ? std::to_string(stage) : "");
    const Expr count = shared ? items() * splits_ : items();
    if (by_warps()) {
      program_.launch_blocks({name, count, written_, code, block},
                             {.threads = shared ? warps_ * 32 : kThreadsThatCombine});
    } else {
      program_.launch({name, count, written_, code, block});
    }
  }
}

}  // namespace lathe::catalog
