#pragma once

#include "baseline/naive/nest.h"
#include "candidate/dialect.h"

namespace lathe::naive {

/// A kernel of a node: its code, and the [[launch]] that runs it.
struct Kernel {
  std::string name;
  Expr items;
  std::vector<std::string> args;
  std::string code;
  std::string work_name = {};  ///< of a scratch buffer of its own, if it needs one
  Expr work_bytes = Expr::constant(0);
  bool work_zeroed = false;
};

/// Whether the node reads an inout tensor at other places than the one that it writes next.
bool reads_what_it_overwrites(const NodeDecl& node);

/// A node's kernels, in the order in which they run; they share one scratch buffer. `before`, where
/// it is not empty: the buffer that holds what was in the inout tensor that the node reads and
/// writes. Errors: the op has no emitter.
Result<std::vector<Kernel>> make_kernels(const TaskSpec& task, const NodeDecl& node, Dialect dialect,
                                         const std::string& before = {});

/// Copies the inout tensor that the node writes to the buffer `before`.
Kernel copy_kernel(const TaskSpec& task, const NodeDecl& node, const std::string& before, Dialect dialect);

/// Definitions of the lathe:: and integer functions that `code` calls: plain libm, one value at a
/// time.
std::string helpers_for(std::string_view code);

}  // namespace lathe::naive
