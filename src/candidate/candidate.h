#pragma once

#include <string>
#include <string_view>

#include "base/digest.h"
#include "candidate/plan.h"
#include "task/spec.h"

namespace lathe {

/// A proposed kernel: one text whose leading /*lathe ... */ comment holds the plan. Immutable;
/// named by the digest of its text.
struct Candidate {
  std::string text;
  std::string name;  ///< a file or a policy's label, for messages
  Plan plan;
  Digest digest;

  bool has_kernels() const;  ///< false when every step is a library node
};

/// Parses untrusted text of at most 1 MiB. Errors: kInvalid, with line and column.
Result<Candidate> parse_candidate(std::string text, std::string name);

/// Extracts the candidate from a model's answer: the last fenced code block that starts with a
/// lathe comment, or else the whole answer.
Result<Candidate> parse_answer(std::string_view answer, std::string name);

/// Checks the plan against the task: every argument, node and dim exists, and some step writes each
/// output.
Status check_plan(const Candidate& candidate, const TaskSpec& task);

}  // namespace lathe
