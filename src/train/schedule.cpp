#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lathe::train {

double Schedule::at(std::int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  if (decay == Decay::kConstant) return peak;
  const auto span = static_cast<double>(std::max<std::int64_t>(1, steps - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / span);
  const double left = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return peak * (final_fraction + (1 - final_fraction) * left);
}

}  // namespace lathe::train
