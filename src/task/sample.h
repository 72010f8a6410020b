#pragma once

#include <optional>
#include <vector>

#include "task/generate_inputs.h"
#include "task/reference.h"

namespace lathe {

/// One set of inputs with what a kernel must make of them.
struct Sample {
  Distribution distribution = Distribution::kNormal;
  Numerics numerics;
  std::vector<HostTensor> inputs;
  std::vector<Expected> expected;
};

struct SampleOptions {
  Numerics numerics = {};         ///< but for `sparse_sums`, which is the distribution's
  std::optional<Part> part = {};  ///< of the outputs that is known; all by default, and of an argmax that
                                  ///< cannot be sliced
};

/// Draws inputs and evaluates the reference. Extreme distributions reach as far as the task allows
/// (to 1e29, or a quarter of what the dtype holds, where values are only moved and compared):
/// where a kernel's values could leave their dtypes' range on the way, smaller inputs are tried,
/// and where these could as well there is no sample. Nor is there one where a native reference says
/// nothing about errors.
Result<std::optional<Sample>> draw_sample(const Reference& reference, const BoundTask& task,
                                          Distribution distribution, const Seed& seed,
                                          const SampleOptions& options = {});

}  // namespace lathe
