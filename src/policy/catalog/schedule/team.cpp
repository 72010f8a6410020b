#include "policy/catalog/schedule/team.h"

#include <algorithm>
#include <array>

namespace lathe::catalog {
namespace {

constexpr int kLargeTeam = 512;
constexpr std::int64_t kKeptRow = 4096;  // which such a team keeps in two vectors a thread
constexpr int kWarp = 32, kUsualTeam = 256, kLargestTeam = 1024;
constexpr int kVectorsOfThread = 8;     // that stay in registers
constexpr std::int64_t kFewRows = 256;  // fewer are shared by several teams

bool has_maximum(const Graph& graph, const Group& group) {
  return std::ranges::any_of(
      group.nodes, [&](int node) { return graph.nodes[static_cast<std::size_t>(node)].how == "max"; });
}

/// The largest team that the shortest row to be reduced gives four elements a thread; for rows
/// beyond what a block of 256 threads keeps in registers, a larger one. Warps where only columns
/// are reduced.
int default_team(const Graph& graph, const Partition& parts) {
  std::int64_t shortest = 0;
  bool columns = false, few = false, once = false;  // once: rows that a block of any size reads in one pass
  for (const Group& group : parts.groups) {
    if (!group.reduces()) continue;
    columns = columns || !group.reduced.back();
    if (!group.reduced.back()) continue;
    const std::int64_t row = headline(graph, group.space.back());
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < group.space.size(); ++i)
      if (!group.reduced[i]) rows *= headline(graph, group.space[i]);
    few = few || rows < kFewRows;
    once = once || few || has_maximum(graph, group);
    shortest = shortest == 0 ? row : std::min(shortest, row);
  }
  if (shortest == 0) return columns ? kWarp : kUsualTeam;
  std::int64_t team = kUsualTeam;
  while (team > kWarp && team * 4 > shortest) team /= 2;
  while (!few && team < kLargeTeam && team * 4 * 2 < shortest && shortest <= kKeptRow) team *= 2;
  while (!once && team < kLargestTeam && team * 4 * kVectorsOfThread < shortest) team *= 2;
  return static_cast<int>(team);
}

bool only_columns(const Partition& parts) {
  return std::ranges::all_of(parts.groups,
                             [](const Group& group) { return group.reduces() && !group.reduced.back(); });
}

/// Neighbouring columns of a thread: several where that leaves enough blocks that shares are long.
int default_column_vector(const Graph& graph, const Partition& parts) {
  constexpr double kManyElements = 1 << 26;
  double most = 0;
  for (const Group& group : parts.groups) most = std::max(most, headline_count(graph, group.space));
  return most >= kManyElements ? 2 : 1;
}

bool has_teams(const Graph& graph, const Partition& parts) {
  return std::ranges::any_of(parts.groups, [&](const Group& group) {
    return graph.nodes[static_cast<std::size_t>(group.nodes[0])].kind != Kind::kPermute;
  });
}

/// Whether every kernel's time is its memory's, so that a compilation for each shape may pay, and
/// the dims can be compiled in: NVRTC reads text of its own after the plan's macros, which has
/// members of these names.
bool may_fix_dims(const Graph& graph, const Partition& parts) {
  static constexpr std::array<std::string_view, 18> kTaken = {
      "a", "b", "f",      "k",     "p",     "v",      "w",    "x",      "y",
      "z", "T", "height", "width", "depth", "length", "size", "kernel", "key"};
  for (const auto& [code, name] : graph.dims)
    if (std::ranges::find(kTaken, name) != kTaken.end()) return false;
  return std::ranges::none_of(parts.groups, [&](const Group& group) {
    const Kind kind = graph.nodes[static_cast<std::size_t>(group.nodes[0])].kind;
    return kind == Kind::kContract || kind == Kind::kConvolve || kind == Kind::kPool;
  });
}

}  // namespace

Target choose_team(const Graph& graph, const Partition& parts, Choices& choices, Target target) {
  if (may_fix_dims(graph, parts)) target.fixed = choices.pick("fixed", {0, 1}, 0) == 1;
  target.team = kUsualTeam;
  target.vector = 4;
  if (has_teams(graph, parts)) {
    const bool columns = only_columns(parts);
    const std::vector<int> teams = {32, 64, 128, 256, 512, 1024};
    target.team = choices.pick("team", columns ? std::vector<int>{kWarp} : teams, default_team(graph, parts));
    target.vector = choices.pick("vector", {1, 2, 4}, columns ? default_column_vector(graph, parts) : 4);
  }
  target.lanes = target.team * target.vector;
  return target;
}

}  // namespace lathe::catalog
