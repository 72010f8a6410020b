#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "policy/language.h"
#include "policy/policy.h"
#include "prompt/prompter.h"

namespace lathe {

inline constexpr std::string_view kFaultPolicy = "fault";  ///< Lineage::policy of injected faults

/// Which of a run's evaluations become examples. Of each kind the best come first.
struct PairOptions {
  PromptOptions prompt = {.max_tokens = 6000};
  int first = 2;             ///< a task and its fastest kernels
  int better = 4;            ///< a kernel, its feedback, and a faster one, derived from it if there is any
  int fixed = 8;             ///< a kernel with an injected fault, its feedback, and the kernel without it
  double near_best = 0.9;    ///< of the best lower bound: slower kernels are no answers to a task
  double least_gain = 1.05;  ///< of a better kernel's lower bound over the other's
};

/// One task's evaluations, and how to speak of them. References must outlive the use.
struct PairSource {
  PolicyContext context;
  const Prompter& prompter;
  const ActionLanguage& language;
  const std::vector<Experience>& experiences;
  const std::string& peer;  ///< speeds count by their lower bounds over it
};

/// Examples for supervised training from the evaluations of one task, as lines of a data file
/// (docs/training.md) with "kind": "first", "better" or "fixed". Every answer is a kernel that
/// passed, in the source's language; kernels of which that language cannot speak are left out.
/// Errors: a prompt that exceeds its budget with nothing shown.
Result<std::vector<nlohmann::json>> pairs_of(const PairSource& source, const PairOptions& options);

}  // namespace lathe
