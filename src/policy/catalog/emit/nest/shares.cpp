#include <algorithm>

#include "policy/catalog/emit/nest/text.h"

// Long reductions on a GPU: several shares of an item's reduced loop, each a team's, or a block's
// whose warps take turns with the rows of a column block. Each pass is a kernel that leaves one
// result a share; they are joined in the same order every time, by the next kernel or by the last
// share to end.

namespace lathe::catalog {
namespace {

constexpr int kThreadsOfMultiprocessor = 1024;  ///< that hide the latency of memory
constexpr int kThreadsThatCombine = 256;
constexpr std::int64_t kFewestRows = 8;     ///< of a share
constexpr std::int64_t kMostShares = 512;   ///< that one accumulator of a column joins
constexpr int kShortShare = 4;              ///< vectors or rows: shorter ones cost more than they gain
constexpr std::int64_t kLongestSum = 1024;  ///< terms of one fp32 accumulator whose error stays small

const Expr& shared_extent(const NestPlan& plan) {
  return plan.loops[static_cast<std::size_t>(plan.shares.loop)].extent;
}

/// The reduced loop with most iterations.
int widest_loop(const Site& site, const NestPlan& plan) {
  int widest = -1;
  std::int64_t most = -1;
  for (std::size_t l = 0; l < plan.loops.size(); ++l) {
    const std::int64_t length = site.headline(plan.loops[l].extent);
    if (plan.loops[l].reduced && length > most) widest = static_cast<int>(l), most = length;
  }
  return widest;
}

/// The longest shares that still occupy the device.
int choose_depth(const Site& site, const NestPlan& plan, bool along, std::int64_t step) {
  const std::int64_t length = site.headline(shared_extent(plan)), lanes = site.target.lanes;
  const bool few = plan.rows_are_few() && length > (along ? 4 * lanes : kFewestRows);
  const int threads = plan.by_warps() ? plan.shares.warps * 32 : site.target.team;
  const std::int64_t wanted = std::int64_t{site.target.multiprocessors} * kThreadsOfMultiprocessor / threads;
  const std::int64_t joined = kMostShares * (plan.by_warps() ? kThreadsThatCombine / 32 : 1);
  std::vector<int> allowed;
  if (!few || length / (along ? lanes : 1) <= kLongestSum) allowed.push_back(0);
  int usual = -1;
  for (int depth = 1; depth <= kLongestSum; depth *= 2) {
    const std::int64_t shares = (length - 1) / (step * depth) + 1,
                       teams = shares * site.headline(plan.items());
    if (!along && shares > joined && depth < kLongestSum) continue;
    allowed.push_back(depth);
    const bool enough = teams >= wanted || (depth <= kShortShare && teams >= site.target.multiprocessors);
    if (usual < 0 || enough) usual = depth;
  }
  if (!few && allowed.front() == 0) usual = 0;
  return site.knob("depth", allowed, usual);
}

/// Where the result of the item's share `number` lies: neighbouring shares' in rows, lanes in
/// columns.
std::string part(const Nest& nest, int t, const std::string& number) {
  const NestPlan& plan = nest.plan;
  const Holes names = {
      {"parts", "p_" + nest.parts.at(t)}, {"number", number}, {"n", factor(plan.last_loop().extent)}};
  if (!plan.columns()) return expand("$parts + own * splits + $number", {}, names);
  const bool outer = std::ranges::count_if(plan.loops, [](const Loop& loop) { return !loop.reduced; }) > 1;
  return expand("$parts + ($outer$number) * $n + j", {{"outer", outer ? "outer * splits + " : ""}}, names);
}

std::string load_part(const Nest& nest, const Scope& scope, int t, const std::string& number) {
  return std::string(scope.fresh ? "load_fresh(" : "load(") + part(nest, t, number) + ", lanes)";
}

/// Joins the moments of share `s` to those so far.
std::string join_moments(const Nest& nest, const Scope& scope) {
  const NestPlan& plan = nest.plan;
  std::string count =
      expand("min(int64_t{$length}, $n - s * $length)",
             {{"length", std::to_string(plan.shares.length)}, {"n", shared_extent(plan).to_string()}});
  for (std::size_t l = 0; l < plan.loops.size(); ++l)
    if (plan.loops[l].reduced && static_cast<int>(l) != plan.shares.loop)
      count += " * " + factor(plan.loops[l].extent);
  return expand(R"(
moments other;
other.mean = $mean;
other.squares = $squares;
other.count = in ? static_cast<float>($count) : 0.0f;
$sums[u] = joined($sums[u], other);
)",
                {{"mean", load_part(nest, scope, plan.online.leader, "s")},
                 {"squares", load_part(nest, scope, plan.online.follower, "s")},
                 {"count", count},
                 {"sums", plan.terms.name(plan.online.leader, 'a')}});
}

constexpr std::string_view kJoinRowParts = R"(
for (int64_t at = 0; at < splits; at += kLanes) {
  const maskv lanes = first_lanes(splits - at);
  $join
}
)";

constexpr std::string_view kJoinColumnParts = R"(
#pragma unroll unrolled(reach, 8)
for (int64_t r = 0; r < cdiv(splits, $warps); ++r) {
  const int64_t s = $share;
  const bool in = s < splits;
  $join
}
)";

/// Declares the result of an earlier pass, from what its shares left.
std::string join_parts(Nest& nest, Scope scope, int t) {
  const NestPlan& plan = nest.plan;
  if (t == plan.online.follower) return {};
  const std::string sums = plan.terms.name(t, 'a');
  const auto kept = [&](const std::string& number) {
    return "keep(lanes, " + load_part(nest, scope, t, number) + ", " + neutral(plan, t) + ")";
  };
  std::string code = declare_accumulators(plan, {t});
  if (!plan.columns()) {
    code += expand(kJoinRowParts, {{"join", join(plan, t, sums + "_0", kept("at"))}});
    return code + finish_reductions(nest, {t});
  }
  nest.vectors.insert("p_" + nest.parts.at(t));
  const bool moments = t == plan.online.leader;
  const std::string warps = plan.by_warps() ? "kWarps" : "1";
  scope.rows_exist = "(" + plan.shares.count.to_string() + ") % " + warps + " == 0";
  const std::string one = for_each_column(
      nest, scope, moments ? join_moments(nest, scope) : join(plan, t, sums + "[u]", kept("s")));
  code += expand(kJoinColumnParts,
                 {{"warps", warps}, {"share", plan.by_warps() ? "warp + r * kWarps" : "r"}, {"join", one}});
  if (plan.by_warps()) code += join_block(plan, {t});
  return code + (moments ? finish_online(nest) : finish_reductions(nest, {t}));
}

/// Leaves what this share found in pass `stage`.
std::string write_parts(Nest& nest, const Scope& scope, int stage) {
  const NestPlan& plan = nest.plan;
  std::string code;
  for (const int t : plan.reductions(stage)) {
    const std::string name = plan.terms.name(t);
    Expr size = plan.shares.count;
    for (const Loop& loop : plan.loops)
      if (!loop.reduced) size = size * loop.extent;
    nest.parts[t] = nest.program.scratch(plan.site.prefix + "_" + plan.term(t).value, size);
    nest.written.insert(nest.parts[t]);
    if (!plan.columns()) {
      code += "*(" + part(nest, t, "split") + ") = " + name + ";\n";
      continue;
    }
    nest.vectors.insert("p_" + nest.parts[t]);
    std::string value = name;
    if (t == plan.online.leader) value = plan.terms.name(t, 'a') + "[u].mean";
    if (t == plan.online.follower) value = plan.terms.name(plan.online.leader, 'a') + "[u].squares";
    code += for_each_column(
        nest, scope,
        expand("${guard}store($part, $value, lanes);\n", {{"guard", plan.by_warps() ? "if (warp == 0) " : ""},
                                                          {"part", part(nest, t, "split")},
                                                          {"value", value}}));
  }
  return code;
}

/// The last share to come by finds the results of pass `stage` and stores what comes of them.
std::string last_share_text(Nest& nest, int stage) {
  const NestPlan& plan = nest.plan;
  const std::string done = nest.program.counters(plan.site.prefix + "_done", plan.items());
  nest.written.insert(done);
  const Scope last = {.fresh = true, .only = plan.by_warps() ? "warp == 0" : ""};
  std::string code;
  for (const int t : plan.reductions(stage)) code += join_parts(nest, last, t);
  code += outer_terms(nest, last, stage + 1) + column_stores(nest, last, stage + 1);
  return expand("if (is_last_share<$block>($done + own, splits)) {\n  $code\n}\n",
                {{"block", plan.by_warps() ? "true" : "false"}, {"done", "p_" + done}, {"code", code}});
}

constexpr std::string_view kShare = R"(
const int64_t split = quotient(item, shares), own = item - split * shares;
const int64_t first = split * $length, last = min(first + $length, int64_t{$n});
)";

/// One kernel's item: pass `stage`, or, where nothing is left to pass over, what the last pass
/// makes known.
std::string share_text(Nest& nest, int stage, bool shared) {
  const NestPlan& plan = nest.plan;
  const std::string extent = shared_extent(plan).to_string(), length = std::to_string(plan.shares.length);
  Scope scope = {.only = shared ? "split == 0" : plan.by_warps() ? "warp == 0" : ""};
  std::string code =
      shared ? expand(kShare, {{"length", length}, {"n", extent}}) : "const int64_t own = item;\n";
  code += item_indices(plan, "own");
  for (int earlier = 0; earlier <= stage; ++earlier) {
    if (earlier > 0)
      for (const int t : plan.reductions(earlier - 1)) code += join_parts(nest, scope, t);
    code += outer_terms(nest, scope, earlier, earlier == stage ? Stores::kWrite : Stores::kLeaveOut);
  }
  code += column_stores(nest, scope, stage);
  Scope passing = scope;
  passing.joins_warps = shared && plan.shares.warps > 1;
  if (shared && plan.columns()) passing.rows_exist = "(" + extent + ") % " + length + " == 0";
  code += pass(nest, passing, stage) + write_parts(nest, scope, stage);
  const bool joins = plan.shares.join && stage + 2 == plan.terms.stages && plan.wanted(stage + 1).empty();
  return joins ? code + last_share_text(nest, stage) : code;
}

}  // namespace

void choose_shares(const Site& site, NestPlan& plan) {
  const bool rows = plan.mode == NestMode::kRows;
  if (!site.target.cuda || (rows && plan.online.leader >= 0)) return;
  for (const Term& term : plan.terms.list)
    if (term.kind == Term::Kind::kReduce && finds_index(term)) return;
  if (plan.by_warps()) plan.shares.warps = site.knob("warps", {4, 8, 16, 32}, 8);
  plan.shares.loop = widest_loop(site, plan);
  const bool along = plan.shares.loop + 1 == static_cast<int>(plan.loops.size());
  const std::int64_t step = along ? site.target.lanes : plan.shares.warps;
  plan.shares.depth = choose_depth(site, plan, along, step);
  if (plan.shares.depth == 0) {
    plan.shares = {};
    return;
  }
  plan.shares.length = step * plan.shares.depth;
  plan.shares.count = Expr::apply("cdiv", shared_extent(plan), Expr::constant(plan.shares.length));
  plan.shares.join = site.knob("join", {0, 1}, 0) == 1;
}

std::string reduced_loop_head(const NestPlan& plan, int loop) {
  const Holes names = {{"index", plan.indices[static_cast<std::size_t>(loop)]},
                       {"n", plan.loops[static_cast<std::size_t>(loop)].extent.to_string()},
                       {"unroll", plan.ahead > 1 ? expand("#pragma $unroll unrolled(reach, $rows)",
                                                          {{"unroll", plan.cuda() ? "unroll" : "GCC unroll"},
                                                           {"rows", std::to_string(plan.ahead)}})
                                                 : ""}};
  if (loop != plan.shares.loop)
    return expand("$unroll\nfor (int64_t $index = 0; $index < $n; ++$index) {", {}, names);
  if (!plan.columns()) return expand("for (int64_t $index = first; $index < last; ++$index) {", {}, names);
  const std::string all =
      expand("($n) % $length == 0 || ", {{"length", std::to_string(plan.shares.length)}}, names);
  return expand(R"(
$unroll
for (int r = 0; r < $depth; ++r) {
  const int64_t $index = first + $row;
  const bool in = $all$index < last;)",
                {{"depth", std::to_string(plan.shares.depth)},
                 {"row", plan.by_warps() ? "warp + r * kWarps" : "r"},
                 {"all", plan.site.target.fixed ? all : ""}},
                names);
}

/// What the block's warps found becomes one result, which all of them have.
std::string join_block(const NestPlan& plan, const std::vector<int>& reduces) {
  constexpr std::string_view kJoin = R"(
for (f32v& mine : $sums) mine = join_warps<kWarps>(mine, [](f32v a, f32v b) {
  $join
  return a;
});
)";
  std::string code;
  for (const int t : reduces) {
    const std::string sums = plan.terms.name(t, 'a');
    if (t == plan.online.leader) {
      code += "for (moments& mine : " + sums + ") mine = join_warps<kWarps>(mine);\n";
    } else if (t != plan.online.follower) {
      code += expand(kJoin, {{"sums", sums}, {"join", join(plan, t, "a", "b")}});
    }
  }
  return code;
}

void launch_shares(Nest& nest, const std::string& kernel) {
  const NestPlan& plan = nest.plan;
  const int last = plan.terms.stages - 1;
  const int stages = plan.shares.join && plan.wanted(last).empty() ? last : plan.terms.stages;
  nest.program.value("splits", plan.shares.count);
  nest.program.value("shares", plan.items());
  for (int stage = 0; stage < stages; ++stage) {
    const bool shared = !plan.wanted(stage).empty();
    const int warps = shared ? plan.shares.warps : kThreadsThatCombine / 32;
    nest.written.clear();
    std::string before;
    if (plan.columns()) before = "constexpr int64_t kBlock = " + std::to_string(plan.block_floats()) + ";\n";
    if (plan.by_warps())
      before +=
          expand("constexpr int kWarps = $warps;\nconst int warp = static_cast<int>(threadIdx.x) / 32;\n",
                 {{"warps", std::to_string(warps)}});
    const std::string body = share_text(nest, stage, shared);
    const std::string reach = vectors_fit(nest);
    const Kernel one{.name = kernel + (stages > 1 ? std::to_string(stage) : ""),
                     .items = shared ? plan.items() * plan.shares.count : plan.items(),
                     .written = nest.written,
                     .body = body,
                     .before = before,
                     .reach = reach};
    if (plan.by_warps()) {
      nest.program.launch_blocks(one, {.threads = warps * 32});
    } else {
      nest.program.launch(one);
    }
  }
}

}  // namespace lathe::catalog
