#pragma once

#include "baseline/naive/nest.h"
#include "candidate/dialect.h"

namespace lathe::naive {

/// One node as a kernel: its code, and the [[launch]] that runs it.
struct Kernel {
  std::string name;
  Expr items;
  std::vector<std::string> args;
  std::string code;
  std::string work_name = {};  ///< of a scratch buffer of its own, if it needs one
  Expr work_bytes = Expr::constant(0);
};

/// Errors: the op has no emitter.
Result<Kernel> make_kernel(const TaskSpec& task, const NodeDecl& node, Dialect dialect);

/// Definitions of the lathe:: and integer functions that `code` calls: plain libm, one value at a
/// time.
std::string helpers_for(std::string_view code);

}  // namespace lathe::naive
