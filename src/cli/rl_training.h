#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::cli {

/// Whether one of `lathe train`'s arguments names a recipe of reinforcement learning that trains no
/// language model.
bool trains_choices(const std::vector<std::string>& arguments);

/// Trains a network that chooses schedules on a table of measured ones, and examines it on tasks
/// that were held out. Returns the exit code.
Result<int> train_choices(const std::vector<std::string>& arguments);

}  // namespace lathe::cli
