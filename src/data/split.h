#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/random.h"
#include "task/spec.h"

namespace lathe {

/// What a task's kernels are for.
enum class Split {
  kTrain,
  kShapes,        ///< held out: tasks of training with other extents
  kCompositions,  ///< held out: no task of training computes the same operations
};
inline constexpr std::array kSplits = {Split::kTrain, Split::kShapes, Split::kCompositions};
std::string_view name(Split split);

/// The operations of a task by name, sorted: "bias_add+matmul+matmul". Extents, dtypes, names and
/// order are left out, so tasks that differ in these alone fall on one side of the split.
std::string composition_of(const TaskSpec& task);

/// Whether 15% of all compositions, drawn by their hash, include this one: training has none of its
/// tasks. Needs no list, so tasks made on different machines never disagree.
bool is_held_out(std::string_view composition);

/// A sound task like `task` with other extents: every scored one between its lowest and itself.
/// Errors: the task is too small, or lint refuses what was drawn.
Result<std::string> reshape(const TaskSpec& task, Rng& rng, const std::string& name);
/// The one that examines what was learned of task `index` of a data set.
Result<std::string> reshape_for_exam(const TaskSpec& task, std::uint64_t seed, int index);

}  // namespace lathe
