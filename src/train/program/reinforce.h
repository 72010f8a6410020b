#pragma once

#include <string>

#include "base/result.h"
#include "train/program/setup.h"

namespace lathe::train {

/// Reinforcement learning of a language model on a table of measured schedules, then its exam on
/// the tasks that were held out. Returns the exit code.
Result<int> reinforce(const TrainOptions& options, const std::string& recipe_text);

}  // namespace lathe::train
