#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policy/language.h"

namespace lathe {

/// A task of a training set and the answers to it, the best first.
struct LearnedTask {
  std::shared_ptr<const TaskSpec> task;
  std::vector<std::string> answers;
};

/// The examples of kinds "first" and "draft" in a folder that `lathe data` wrote, with their tasks.
Result<std::vector<LearnedTask>> read_learned_tasks(const std::string& folder,
                                                    const ActionLanguage& language);

/// How unlike two tasks are: by their operations, then by the order of these, then by their
/// extents.
struct TaskDistance {
  double operations = 0;  ///< 1 - |common| / |all|, of multisets
  double order = 0;       ///< edits that make one sequence of operations the other
  double extents = 0;     ///< mean |log2| of the ratios of dims, place by place
  auto operator<=>(const TaskDistance&) const = default;
};
TaskDistance distance(const TaskSpec& one, const TaskSpec& other);

/// "retrieval": memory alone, the control of what a model has learned. Proposes the answers to the
/// nearest tasks, the nearest task's first, carried over to the task that is asked for. What cannot
/// be carried over is proposed as it is.
std::unique_ptr<Policy> make_retrieval_policy(std::vector<LearnedTask> learned,
                                              std::shared_ptr<const ActionLanguage> language);

}  // namespace lathe
