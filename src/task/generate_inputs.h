#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "task/bound_task.h"

namespace lathe {

/// The distributions that a candidate is verified on; each exposes errors that the others hide.
enum class Distribution {
  kNormal,        ///< shifted normal with a scale per row
  kHeavyTail,     ///< a few large values among small ones
  kOneHot,        ///< one non-zero element a row
  kCancellation,  ///< sums that nearly cancel
  kDenormal,      ///< values around the smallest normal
  kIntegers,      ///< small integers, exact in every format
  kProbe,         ///< full mantissas times a permutation matrix: exposes reduced precision
};
std::string_view name(Distribution distribution);
std::span<const Distribution> all_distributions();

/// One tensor for each of the task's inputs, in order. Bounded, positive and index generators keep
/// their range under every distribution. Deterministic in the seed.
std::vector<HostTensor> generate_inputs(const BoundTask& task, Distribution distribution, const Seed& seed);

}  // namespace lathe
