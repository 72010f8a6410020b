#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace lathe::lm {

/// Models by name, to be filled with random weights: for measurements, tests and first tries.
Result<ModelConfig> known_shape(const std::string& name);

}  // namespace lathe::lm
