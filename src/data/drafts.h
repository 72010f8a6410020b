#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "policy/policy.h"
#include "prompt/prompter.h"
#include "task/generate/generate.h"

namespace lathe {

struct DraftOptions {
  std::uint64_t seed = 1;  ///< as DataOptions::seed
  int tasks = 500;
  int extents = 1;  ///< of a task: its own, and others that no exam of the data set has
  int kernels = 2;  ///< of each, the policy's most promising
  int varied = 0;   ///< of each besides: its first with some choices made anew, at random
  GenerateOptions generate = {};
  PromptOptions prompt = {.max_tokens = 6000};
};

struct DraftContext {
  DeviceInfo device;
  DevicePeaks peaks;
  const Prompter& prompter;
  std::function<std::unique_ptr<Policy>()> make_policy;  ///< called on several threads
  CancelToken stop;
};

struct Drafts {
  std::string lines;  ///< of a data file (docs/training.md), "kind": "draft"
  int examples = 0;
  std::vector<std::shared_ptr<const TaskSpec>> tasks;  ///< of the examples, each with its extents
  int held_out = 0;                                    ///< for their compositions
  int without = 0;  ///< for which the policy has no kernel, or whose prompt exceeds the budget
};

/// Tasks of the generator and kernels that a policy would try first, none of which was built:
/// thousands of examples in the time that evaluating one takes, for a model to learn the language
/// from. What of it is wrong nobody knows, so such data are never called verified. Compositions
/// that is_held_out() are left out, so that the exams of verified data are fair to them too. A
/// model that has seen only what comes first writes nothing else, which leaves reinforcement
/// nothing to choose from: `varied` kernels are for that.
Result<Drafts> draft_examples(const DraftContext& context, const DraftOptions& options);

}  // namespace lathe
