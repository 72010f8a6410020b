#pragma once

#include <cstdint>

namespace lathe::train {

enum class Decay : std::uint8_t { kCosine, kConstant };

/// The learning rate over a run's steps: up in a straight line, then down along half a cosine
/// (Loshchilov and Hutter, "SGDR", 2016) or level.
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

}  // namespace lathe::train
