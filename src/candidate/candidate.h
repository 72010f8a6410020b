#pragma once

#include <cassert>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "candidate/plan.h"
#include "task/spec.h"

namespace lathe {

/// A longer text is no candidate.
inline constexpr std::size_t kMaxCandidateBytes = 1 << 20;

/// One proposed kernel: ONE text, whose leading /*lathe ... */ comment (in Python the docstring
/// """lathe ... """) says how it is run. Immutable; named by the digest of its text.
struct Candidate {
  std::string text;
  std::string name;  ///< a file or a policy's label, for messages
  Program program;
  Digest digest;

  bool has_plan() const { return std::holds_alternative<Plan>(program); }
  const Plan& plan() const { return assert(has_plan()), *std::get_if<Plan>(&program); }
  const HostProgram& host_program() const { return assert(!has_plan()), *std::get_if<HostProgram>(&program); }
  /// What narrows the task's domain, whatever the program is.
  const std::optional<Expr>& requirement() const {
    return has_plan() ? plan().requires_ : host_program().requires_;
  }
  bool has_kernels() const;  ///< false when every step of its plan is a library node
};

/// Parses untrusted text of at most 1 MiB. Errors: kInvalid, with line and column.
Result<Candidate> parse_candidate(std::string text, std::string name);

/// The candidate in a model's answer: of the fenced blocks behind its thoughts the last that starts
/// with front matter; else the answer itself, where it does; else its last block, or all of it,
/// from which the gym will say what is missing. A block that is not closed ends with the answer. At
/// most 1 MiB.
std::string candidate_in(std::string_view answer);

/// candidate_in(), parsed.
Result<Candidate> parse_answer(std::string_view answer, std::string name);

/// Whether a text begins as a candidate does.
bool starts_with_front_matter(std::string_view text);

/// A kernel's text with dims compiled in: macros from its beginning on, hidden from Lathe's
/// headers, whose own names they must not change.
std::string with_constants(const std::string& text, const Dims& constants);

/// Checks the plan against the task: every arg, node and dim exists, outputs are written by
/// someone. Of a host program nothing is known but its requirement, whose names must exist.
Status check_plan(const Candidate& candidate, const TaskSpec& task);

}  // namespace lathe
