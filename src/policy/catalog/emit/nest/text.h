#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/catalog/emit/nest/plan.h"
#include "policy/catalog/emit/program.h"

// The text of a nest, by the file that writes it. Functions return statements without indentation.

namespace lathe::catalog {

/// A plan on its way into a program, and what its kernels turned out to use.
struct Nest {
  const NestPlan& plan;
  Program& program;
  std::set<std::string> written = {};  ///< buffers
  std::set<std::string> vectors = {};  ///< parameters that are read or written by vectors
  int exchanges = 0;                   ///< of a team, so far: those that follow each other use other memory
  std::map<int, std::string> parts = {};  ///< of reductions: the scratch with each share's result
};

/// Where in a kernel a text stands.
struct Scope {
  Vectors vectors = Vectors::kFromMemory;
  bool joins_warps = false;     ///< a block's warps found parts of the results
  bool fresh = false;           ///< reads what other blocks of this launch wrote
  std::string rows_exist = {};  ///< rows count where `in`; the condition under which that is everywhere
  std::string only = {};        ///< who stores what every share computes
};

// text.cpp: terms, and loops over vectors.

/// Whether the C text uses the identifier.
bool mentions(const std::string& code, const std::string& word);
/// Where the value's element lies, in C.
std::string address(const NestPlan& plan, const std::string& value);
/// Reads a term from memory; `inside`: inside the loop over vectors.
std::string read(Nest& nest, int t, bool inside);
std::string declare(Nest& nest, const Scope& scope, int t, int stage, bool inside);
std::string store(Nest& nest, const Scope& scope, int t, bool inside);
/// The leading lanes that a loop has left. `all`: a condition on dims under which these are all.
std::string mask(const NestPlan& plan, const std::string& lanes, const std::string& all = {});
/// Declares the indices of an item.
std::string item_indices(const NestPlan& plan, const std::string& item);
/// `body` for [from, to): unrolled, then one vector at a time, then a masked tail.
std::string vector_loop(const Nest& nest, const std::string& body, const std::vector<int>& reduces,
                        const std::string& from, const std::string& to);
/// `code` for each vector of a column block.
std::string for_each_column(const Nest& nest, const Scope& scope, const std::string& code);
/// For a GPU: when vectors fit the tensors that `nest.vectors` lists, which it forgets; else empty.
std::string vectors_fit(Nest& nest);

// reduce.cpp: accumulators.

bool finds_index(const Term& term);  ///< of an extremum, not its value
std::string neutral(const NestPlan& plan, int t);
/// "a = max(a, b);"
std::string join(const NestPlan& plan, int t, const std::string& a, const std::string& b);
std::string declare_accumulators(const NestPlan& plan, const std::vector<int>& reduces);
std::string accumulate(const NestPlan& plan, const Scope& scope, int t, const std::string& accumulator);
/// Declares the results.
std::string finish_reductions(Nest& nest, const std::vector<int>& reduces);
/// "<0>", "<1>": exchanges that follow each other use different memory.
std::string next_exchange(Nest& nest);

// online.cpp: reductions that one pass finds together.

/// `suffix`: which of several accumulators.
std::string extend_online(const NestPlan& plan, const Scope& scope, const std::string& suffix);
std::string finish_online(Nest& nest);
/// The term of a row that a sum of one term consists of.
std::string pick(Nest& nest, int t);

// passes.cpp: passes over the reduced loops.

enum class Stores { kWrite, kLeaveOut };
/// Terms of the item itself that pass `stage` - 1 made known, with their stores.
std::string outer_terms(Nest& nest, const Scope& scope, int stage, Stores stores = Stores::kWrite);
/// Stores of what columns compute lane by lane outside the reduced loops.
std::string column_stores(Nest& nest, const Scope& scope, int stage);
/// The statements for one vector of one pass, without reductions.
std::string pass_body(Nest& nest, const Scope& scope, int stage);
std::string pass(Nest& nest, const Scope& scope, int stage);

// kept.cpp: rows that stay in registers.

/// Reads what is kept, before anything waits for it.
std::string keep_rows(Nest& nest);
std::string kept_pass(Nest& nest, int stage, const std::vector<int>& reduces);

// shares.cpp and map.cpp: kernels of their own.

/// The head of a reduced loop that vectors do not run along.
std::string reduced_loop_head(const NestPlan& plan, int loop);
std::string join_block(const NestPlan& plan, const std::vector<int>& reduces);
void launch_shares(Nest& nest, const std::string& kernel);
void launch_map(Nest& nest, const std::string& kernel);

}  // namespace lathe::catalog
