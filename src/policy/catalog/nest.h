#pragma once

#include <set>
#include <string>
#include <vector>

#include "policy/catalog/patterns.h"

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
  explicit NestEmitter(const Site& site);
  Status run();

 private:
  static constexpr int kFlatBlock = 4096;

  bool inner(const Term& term) const;  ///< computed inside the loops of a pass
  bool lanewise(const Term& term) const { return term.runs.back(); }
  bool is_input_buffer(const std::string& value) const;
  void choose();
  void choose_cache();

  std::string address(const std::string& value) const;
  std::string read(int term, bool inside) const;
  std::string declare(int term, int stage, bool inside);
  std::string store_text(int term, bool inside);
  std::vector<int> reductions(int stage) const;
  std::vector<int> wanted(int stage) const;
  std::vector<int> closure(const std::vector<int>& targets, int stage) const;

  std::int64_t block_floats() const { return writer_.block_floats(unroll_); }
  /// Elements of an item of a flat loop.
  int flat_block() const { return writer_.cuda() ? writer_.block_floats(unroll_) : kFlatBlock; }
  std::string outer_terms(int stage);
  std::string with_column_terms(int stage, std::string code);
  std::string pass(int stage);
  std::string pass_body(int stage);
  std::string accumulate(int reduce, const std::string& accumulator);
  std::string declare_accumulators(const std::vector<int>& reduces) const;
  std::string finish_reductions(const std::vector<int>& reduces) const;
  std::string vector_loop(const std::string& body, const std::vector<int>& reduces, const std::string& from,
                          const std::string& to) const;
  std::string per_block(const std::string& code) const;
  std::string passes();
  void account() const;

  const Site& site_;
  const Group& group_;
  Writer& writer_;
  std::vector<Loop> loops_;
  Terms terms_;
  NestMode mode_ = NestMode::kFlat;
  int unroll_ = 4;
  bool streaming_ = false;
  int cached_ = -1;    ///< a costly term kept in `cache_` between passes
  std::string cache_;  ///< the output that will be overwritten last
  std::vector<std::string> indices_;
  std::set<std::string> written_;
};

}  // namespace lathe::catalog
