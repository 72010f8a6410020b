#pragma once

#include <vector>

#include "task/compare.h"
#include "task/generate_inputs.h"
#include "task/reference.h"

namespace lathe {

/// One set of inputs with what the outputs must be.
struct LintCase {
  Distribution distribution = Distribution::kNormal;
  Numerics numerics;
  std::vector<HostTensor> inputs;
  std::vector<Expected> expected;
};

/// The headline shape, halved dim by dim inside the domain until one evaluation takes about a millisecond.
Dims lint_shape(const TaskSpec& spec);

Result<LintCase> make_case(const BoundTask& task, const Reference& reference, Distribution distribution,
                           const Seed& seed);

/// Rounds values to the output's dtype and compares them, as a kernel's result would be.
Comparison judge(const Expected& expected, std::span<const double> values);

}  // namespace lathe
