#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace lathe::rl {

enum class Decay : std::uint8_t { kCosine, kConstant, kLinear };
Result<Decay> parse_decay(std::string_view name);  ///< "cosine", "constant", "linear"

/// The learning rate over a run's steps, of supervised learning as well: up in a straight line,
/// then down along half a cosine (Loshchilov and Hutter, "SGDR", 2016) or a straight line, or
/// level.
struct Schedule {
  double peak = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 1;
  Decay decay = Decay::kCosine;
  double final_fraction = 0;  ///< of the peak, at the end

  /// Of the step from 0. The first step's is not 0, and the last warm-up step's successor has the
  /// peak.
  double at(std::int64_t step) const;
};

}  // namespace lathe::rl
