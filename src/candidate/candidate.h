#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"
#include "candidate/plan.h"
#include "task/spec.h"

namespace lathe {

/// One proposed kernel: ONE text, whose leading /*lathe ... */ comment is the plan. Immutable; named by the
/// digest of its text.
struct Candidate {
  std::string text;
  std::string name;  ///< a file or a policy's label, for messages
  Plan plan;
  Digest digest;

  bool has_kernels() const;  ///< false when every step is a library node
};

/// Untrusted text in, a candidate or an error with line and column out. At most 1 MiB.
Result<Candidate> parse_candidate(std::string text, std::string name);

/// Finds the candidate in a model's answer: the last fenced block that starts with a lathe comment, else the
/// whole answer.
Result<Candidate> parse_answer(std::string_view answer, std::string name);

/// Checks the plan against the task: every arg, node and dim exists, outputs are written by someone.
Status check_plan(const Candidate& candidate, const TaskSpec& task);

}  // namespace lathe
