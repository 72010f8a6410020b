#pragma once

#include <cstddef>
#include <vector>

#include "task/op.h"

namespace lathe {

/// Values of an input that tell an op from its likely mistakes: ties of a rounding, thresholds and
/// their neighbours, zeros of both signs. Empty where random ones do. Inputs of a task that such an
/// op reads hold some of them in one distribution.
std::vector<double> telling_inputs(const Op& op, const Attrs& attrs, std::size_t input, DType dtype);

}  // namespace lathe
