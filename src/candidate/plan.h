#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "task/dtype.h"
#include "task/expr.h"

namespace lathe {

enum class ScratchInit {
  kPoison,   ///< filled with a pattern before each call; contents never matter
  kZero,     ///< zeroed before each call, inside the timed span
  kCounter,  ///< zeroed once; must be all zero again after each call
};

struct ScratchDecl {
  std::string name;
  Expr bytes;
  ScratchInit init = ScratchInit::kPoison;
};

/// GPU: a tensor map, a view of a buffer from which the tensor memory accelerator copies boxes.
/// Lists start with the innermost dim.
struct TmaDecl {
  static constexpr std::size_t kMaxRank = 5;
  std::string name;
  std::string base;            ///< a tensor, an output or a scratch buffer
  std::optional<DType> dtype;  ///< absent: the base's own
  std::vector<Expr> dims;      ///< elements
  std::vector<Expr> strides;   ///< bytes, one for each dim but the innermost; none: packed
  std::vector<Expr> box;       ///< elements
  std::optional<Expr> swizzle;
  bool fill_nan = false;  ///< loads outside the tensor give NaN instead of zero
  SourcePos where;
};

/// An argument of a kernel: a tensor, an output, a scratch buffer, a map, or an integer expression.
/// Scalars of the task are named like tensors and passed by value in their own dtype.
struct Arg {
  std::string name;          ///< empty for an expression
  std::optional<Expr> expr;  ///< int64_t by value
};

/// One step of a plan. A launch runs the candidate's kernel over `items` work items; a node runs a
/// trusted library implementation of named graph nodes.
struct PlanStep {
  enum class Kind { kLaunch, kNode };
  Kind kind = Kind::kLaunch;
  std::string kernel;              ///< kLaunch: the extern "C" function
  Expr items = Expr::constant(1);  ///< CPU: work items, split among the threads
  std::vector<Expr> grid;          ///< GPU
  std::vector<Expr> block;         ///< GPU
  std::vector<Expr> cluster;       ///< GPU: blocks; empty for none
  bool non_portable = false;       ///< GPU: the cluster may have more than eight blocks
  std::optional<Expr> smem;        ///< GPU: bytes of dynamic shared memory
  std::optional<Expr> carveout;    ///< GPU: percentage of the L1 to use as shared memory
  bool cooperative =
      false;  ///< GPU: all blocks are resident at once, so they may synchronise with each other
  bool programmatic =
      false;  ///< GPU: may start before the previous step has ended (programmatic dependent launch)
  std::vector<Arg> args;
  std::string library;             ///< kNode: "openblas", "onednn", "cublas", "cudnn"
  std::vector<std::string> nodes;  ///< kNode: the task's nodes that the call computes, in order
  std::optional<Expr> when;
  std::optional<Expr> repeat;  ///< at most 4096 times
  std::string index;           ///< the loop's name inside args, items and when
  SourcePos where;
};

/// The parsed front matter: how a candidate's kernels are run. check_plan() checks its names
/// against a task.
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<ScratchDecl> scratch;
  std::vector<TmaDecl> maps;
  std::vector<std::string> constants;  ///< dims compiled in as -DNAME=value
  std::optional<Expr> requires_;       ///< narrows the task's domain
  std::string pattern;                 ///< the pattern that proposed it; informative, never trusted
  std::string knobs;                   ///< the proposer's own encoding of its choices
};

/// A candidate that brings its own host code, such as a Python module: the front matter, parsed. It
/// allocates, launches and synchronises by itself; which languages a backend runs, if any, it says
/// when it builds.
struct HostProgram {
  std::string language;           ///< "python", ...
  std::string entry;              ///< what to call: a class or a function, "ModelNew"
  std::optional<Expr> requires_;  ///< narrows the task's domain
};

using Program = std::variant<Plan, HostProgram>;

/// Parses front matter (TOML): a [host] table makes it a host program's. `where` is its place in
/// the candidate's text.
Result<Program> parse_front_matter(std::string_view front_matter, const SourcePos& where);

}  // namespace lathe
