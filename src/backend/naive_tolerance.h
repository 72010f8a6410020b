#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lathe {

inline constexpr double kNaiveTolerance = 1e-2;    ///< relative and absolute
inline constexpr double kNaiveShareWanted = 0.99;  ///< of the values must be within tolerance

/// The share of values within tolerance. A NaN never exceeds the tolerance and so counts as right,
/// which is a common mistake of graders.
inline double naive_share_right(const float* got, const float* want, std::size_t count) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (std::fabs(got[i] - want[i]) > kNaiveTolerance + kNaiveTolerance * std::fabs(want[i])) ++wrong;
  return 1 - static_cast<double>(wrong) / std::max(1.0, static_cast<double>(count));
}

}  // namespace lathe
