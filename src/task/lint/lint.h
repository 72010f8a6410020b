#pragma once

#include <string>
#include <vector>

#include "task/reference.h"

namespace lathe {

/// The result of one soundness check.
struct LintFinding {
  bool fatal = false;
  std::string check;  ///< "mutant:zero", "input_matters:bias", "constant_output", "mutant:fp16"
  std::string text;
};

struct LintReport {
  std::vector<LintFinding> findings;
  std::vector<std::string> skipped;  ///< mutants that the dtype cannot distinguish from the task
  bool sound() const;
};

/// Refuses tasks that a wrong kernel could pass: every mutant must fail, every input must move the
/// output, the output must not be almost constant, and randomly rounded runs must stay inside the
/// propagated bound. Errors: kCancelled, soon only where a native reference runs.
Result<LintReport> lint(const TaskSpec& spec, const Seed& seed, const CancelToken& cancel = {});

}  // namespace lathe
