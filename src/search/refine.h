#pragma once

#include "search/strategy.h"

namespace lathe {

struct RefineOptions {
  int turns = 3;     ///< of a conversation, the first answer included (Dr. Kernel)
  int branches = 4;  ///< conversations that begin with samples of one prompt
  /// Show the best turns of the conversation instead of all of them (STTS; 14 turns).
  bool best_of_history = false;
};

/// Conversations: a kernel, its feedback, a better kernel. `branches` of them go on side by side,
/// each at its own pace, for `turns` turns; then the next ones begin. Their first turns share a
/// prompt and so a group; later turns have the same group, whose samples are compared turn by turn.
/// Everything follows from the archive, so a resumed search asks for just the turns that are
/// missing. Of a policy that can vary kernels, later turns are variations of the turn before.
/// Errors: fewer than one turn or branch.
Result<std::unique_ptr<Strategy>> make_refine(const RefineOptions& options);

}  // namespace lathe
