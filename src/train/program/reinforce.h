#pragma once

#include <string>

#include "base/result.h"
#include "train/program/setup.h"

namespace lathe::train {

/// Reinforcement learning of a language model: of one that writes schedules on a table of measured
/// ones, then its exam on the tasks that were held out; of one that writes kernels on a service's
/// gym. Returns the exit code.
Result<int> reinforce(const TrainOptions& options, const std::string& recipe_text);

}  // namespace lathe::train
