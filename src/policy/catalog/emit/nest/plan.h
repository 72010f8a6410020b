#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/catalog/emit/site.h"
#include "policy/catalog/emit/terms.h"

// Which kernel a nest of loops becomes. Everything is decided here, before any text is written.

namespace lathe::catalog {

/// How a nest uses vectors. Items are the loops that are neither reduced nor along vectors.
enum class NestMode {
  kFlat,    ///< one loop, no reduction: items are blocks of it
  kMap,     ///< no reduction, vectors along the last loop
  kRows,    ///< the last loop is reduced: vectors along it, then a horizontal step
  kColumns  ///< the last loop is not reduced: each lane reduces by itself
};

/// Whether values that registers keep between passes count as left over (kept.cpp), or those of the
/// cache.
enum class Vectors { kFromMemory, kKept };

/// Several teams share a long reduced loop, each pass in a kernel of its own (shares.cpp).
struct Shares {
  int loop = -1;            ///< which; -1: no shares
  int depth = 0;            ///< how often a share takes a vector, or a row for each warp
  int warps = 1;            ///< of a block that take turns with a share's rows
  bool join = false;        ///< the last share joins the results of all
  std::int64_t length = 0;  ///< of the loop, in a share
  Expr count;
};

/// Two reductions that one pass finds together (online.cpp): maximum and sum of exponentials of a
/// row, mean and squared deviations of a column.
struct Pair {
  int leader = -1, follower = -1;
};

struct NestPlan {
  const Site& site;
  std::vector<Loop> loops;
  std::vector<std::string> indices;  ///< of the loops: "ix0", ..., "j"
  Terms terms;
  NestMode mode = NestMode::kFlat;

  bool exact = false;     ///< each value in its own type, one element at a time: vectors are the compiler's
  bool by_value = false;  ///< one element at a time: exact, or of rows that are shorter than a vector
  int run = -1;           ///< a loop of short rows that an item takes together; -1: none
  int unroll = 4;
  std::string load = "load";  ///< reads what is read once
  bool stores_past_cache = false;
  int cached = -1;    ///< a costly term kept in `cache` between passes; -1: none
  std::string cache;  ///< the output that will be overwritten last
  Pair online;
  std::map<int, std::pair<int, int>> picks;  ///< sums with one term: the row's values, and the term's number
  Shares shares;
  int map_rows = 1;  ///< of a map that share what they have in common
  int ahead = 1;     ///< rows of a column block that are read together
  int kept = 0;      ///< vectors of a row that stay in registers between passes
  std::vector<int> kept_terms;

  /// The loops, the terms and the mode; nothing is chosen yet.
  explicit NestPlan(const Site& site);

  const Term& term(int t) const { return terms.list[static_cast<std::size_t>(t)]; }
  int term_count() const { return static_cast<int>(terms.list.size()); }
  const Loop& last_loop() const { return loops.back(); }
  bool cuda() const { return site.target.cuda; }
  bool columns() const { return mode == NestMode::kColumns; }
  bool by_warps() const { return columns() && site.target.team == 32; }
  bool is_kept(int t) const;
  /// Stored where an inout tensor was: what it is computed from may be gone then.
  bool overwrites(int t) const { return term(t).stored && site.graph.overwrites(term(t).value); }
  /// Computed inside the loops of a pass.
  bool inner(const Term& term) const;
  /// Differs between lanes.
  static bool lanewise(const Term& term) { return term.runs.back(); }
  /// Runs along every loop.
  static bool full(const Term& term);
  bool is_iota(const Term& term) const { return site.graph.iotas.contains(term.value); }
  /// A map on a GPU all of whose results run along vectors (map.cpp).
  bool is_plain_map() const;

  /// The reductions that pass `stage` finds.
  std::vector<int> reductions(int stage) const;
  /// What pass `stage` must compute: operands of its reductions, values stored as soon as they are
  /// known, and what it leaves to later passes.
  std::vector<int> wanted(int stage, Vectors vectors = Vectors::kFromMemory) const;
  /// The inner terms that `targets` need, operands first. What an earlier pass left needs nothing.
  std::vector<int> closure(const std::vector<int>& targets, int stage,
                           Vectors vectors = Vectors::kFromMemory) const;
  /// Whether pass `stage` finds the term where an earlier one left it.
  bool is_left_over(int t, int stage, Vectors vectors = Vectors::kFromMemory) const;
  /// Whether a pass after `stage` uses the term.
  bool is_needed_after(int t, int stage) const;

  std::int64_t block_floats() const { return site.target.block_floats(unroll); }
  /// Elements of an item of a flat loop.
  int flat_block() const;
  Expr items() const;
  std::int64_t row_vectors() const;
  /// "f32v", or the type of an element where values are computed one by one.
  std::string lane_type(int t) const { return by_value ? term(t).type : "f32v"; }
  /// Of a reduction on the way: the extremum's own, where its index is wanted.
  std::string accumulator_type(int t) const;
  /// Of an extremum's index on the way.
  std::string index_type() const { return exact ? "int64_t" : by_value ? "float" : "f32v"; }
  /// What a vector holds, in C.
  const char* width() const { return exact ? "1" : "kLanes"; }
  /// Too few rows, or columns, to occupy a GPU.
  bool rows_are_few() const;
};

/// Vectors of a row that registers usually hold.
inline constexpr int kMostKept = 8;

/// Errors: a reduction over columns whose operand does not run along them.
Result<NestPlan> choose_nest(const Site& site);

// Each strategy's part of the choice, in this order.
void choose_picks(const Site& site, NestPlan& plan);
void choose_online(const Site& site, NestPlan& plan);
void choose_shares(const Site& site, NestPlan& plan);
void choose_kept(const Site& site, NestPlan& plan);
void choose_map(const Site& site, NestPlan& plan);

}  // namespace lathe::catalog
