#include "rl/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace lathe::rl {

Result<Decay> parse_decay(std::string_view name) {
  if (name == "cosine") return Decay::kCosine;
  if (name == "constant") return Decay::kConstant;
  if (name == "linear") return Decay::kLinear;
  return invalid("unknown schedule '" + std::string(name) + "'", "one of: constant, cosine, linear");
}

double Schedule::at(std::int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  if (decay == Decay::kConstant) return peak;
  const auto span = static_cast<double>(std::max<std::int64_t>(1, steps - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / span);
  const double left =
      decay == Decay::kLinear ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return peak * (final_fraction + (1 - final_fraction) * left);
}

}  // namespace lathe::rl
