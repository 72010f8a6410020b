#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/catalog/emit/patterns.h"
#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {

/// How a nest uses vectors. Items are the loops that are neither reduced nor `vector`.
enum class NestMode {
  kFlat,    ///< one loop, no reduction: items are blocks of it
  kMap,     ///< no reduction, vectors along the last loop
  kRows,    ///< the last loop is reduced: vectors along it, then a horizontal step
  kColumns  ///< the last loop is not reduced: each lane reduces by itself
};

/// Whether the C text uses the identifier.
bool mentions(const std::string& code, const std::string& word);

/// Writes one nest's kernel. The parts are methods so that each stays readable; run() shows their order.
class NestEmitter {
 public:
  NestEmitter(const Site& site, Program& program);
  Status run();

 private:
  static constexpr int kFlatBlock = 4096;
  static constexpr int kMostKept = 8;  ///< vectors of a row that registers usually hold

  bool inner(const Term& term) const;  ///< computed inside the loops of a pass
  bool lanewise(const Term& term) const { return term.runs.back(); }
  bool is_input_buffer(const std::string& value) const;
  void choose();
  void choose_cache();
  void choose_online();
  bool find_softmax();
  bool find_moments();
  void find_picks();
  std::string extend_online(const std::string& suffix) const;
  std::string finish_online();
  std::string pick_text(int term);
  void set_stages();
  void choose_split();
  void choose_depth();
  bool rows_are_few() const;
  std::int64_t row_vectors() const {
    return (headline(site_.graph, loops_.back().extent) - 1) / site_.target.lanes + 1;
  }
  void choose_kept();
  void choose_ahead();
  bool is_kept(int term) const;
  /// Whether the pass finds the term where an earlier one left it.
  bool is_left_over(int term, int stage) const;
  std::string keep_rows();
  std::string kept_loop(const std::string& code) const;
  std::string kept_pass(int stage, const std::vector<int>& reduces);
  bool is_needed_after(int term, int stage) const;

  std::string address(const std::string& value) const;
  std::string read(int term, bool inside);
  std::string declare(int term, int stage, bool inside);
  std::string store_text(int term, bool inside);
  std::vector<int> reductions(int stage) const;
  std::vector<int> wanted(int stage) const;
  std::vector<int> closure(const std::vector<int>& targets, int stage) const;

  std::int64_t block_floats() const { return site_.target.block_floats(unroll_); }
  /// Elements of an item of a flat loop.
  int flat_block() const { return site_.target.cuda ? site_.target.block_floats(unroll_) : kFlatBlock; }
  enum class Stores { kWrite, kLeaveOut };
  std::string outer_terms(int stage, Stores stores = Stores::kWrite);
  std::string column_stores(int stage);
  std::string with_column_terms(int stage, std::string code);
  std::string pass(int stage);
  std::string pass_body(int stage);
  std::string accumulate(int reduce, const std::string& accumulator);
  std::string declare_accumulators(const std::vector<int>& reduces) const;
  std::string finish_reductions(const std::vector<int>& reduces);
  std::string turn();
  std::string vector_loop(const std::string& body, const std::vector<int>& reduces, const std::string& from,
                          const std::string& to) const;
  std::string per_block(const std::string& code) const;
  /// The leading lanes that a loop has left. `all`: a condition on dims under which these are all.
  std::string mask(const std::string& lanes, const std::string& all = {}) const;
  std::string for_each_reach(const std::string& code);
  std::string passes();
  std::string item_indices(const std::string& item);
  Expr items() const;
  void account() const;

  std::string neutral(int reduce) const;
  std::string join(int reduce, const std::string& a, const std::string& b) const;
  std::string part(int reduce, const std::string& number) const;
  std::string combine_parts(int reduce);
  std::string combine_moments() const;
  std::string write_parts(int stage);
  bool by_warps() const { return mode_ == NestMode::kColumns && site_.target.team == 32; }
  std::string join_block(const std::vector<int>& reduces) const;
  std::string join_shares(int stage);
  std::string share_text(int stage, bool shared);
  std::string loop_head(std::size_t loop) const;
  void launch_split(const std::string& kernel);
  bool is_plain_map() const;
  void choose_map();
  std::string map_text();
  void launch_map(const std::string& kernel);

  const Site& site_;
  const Group& group_;
  Program& program_;
  std::vector<Loop> loops_;
  Terms terms_;
  NestMode mode_ = NestMode::kFlat;
  int unroll_ = 4;
  bool streams_ = false;                      ///< stores pass by the cache
  std::string hint_ = "load(";                ///< how what is read once is read
  int cached_ = -1;                           ///< a costly term kept in `cache_` between passes
  std::string cache_;                         ///< the output that will be overwritten last
  int leader_ = -1, follower_ = -1;           ///< reductions that one pass finds together
  std::map<int, std::pair<int, int>> picks_;  ///< sums with one term: the row's values, and the term's number
  int split_ = -1;          ///< the reduced loop that several teams share, each stage in a kernel of its own
  int depth_ = 0;           ///< how often a share takes a vector, or a row for each warp
  int warps_ = 1;           ///< of a block that share a share's rows
  bool join_ = false;       ///< the last share joins the results of all
  std::int64_t chunk_ = 0;  ///< of the loop, in a share
  Expr splits_;             ///< shares
  std::map<int, std::string> parts_;  ///< of reductions: the scratch with each share's result
  std::string only_;                  ///< who stores what the text under way computes once
  bool fresh_ = false;                ///< the text under way reads parts of this launch
  std::string guard_;                 ///< rows under way count where `in`: everywhere on this condition
  bool shared_ = false;               ///< the text under way is for rows of a share
  int turns_ = 0;                     ///< reductions of teams so far
  int rows_ = 1;                      ///< of a map that share what they have in common
  int ahead_ = 1;                     ///< rows of a column block that are read together
  int kept_ = 0;                      ///< vectors of a row that stay in registers between passes
  std::vector<int> kept_terms_;
  bool in_kept_ = false;  ///< the text under way is for those vectors
  std::vector<std::string> indices_;
  std::set<std::string> written_;
  std::set<std::string> vectors_;  ///< buffers that the text under way reads or writes by vectors
};

}  // namespace lathe::catalog
