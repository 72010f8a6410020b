#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace lathe {

inline constexpr double kNaiveTolerance = 1e-2;    ///< relative and absolute
inline constexpr double kNaiveShareWanted = 0.99;  ///< of the values must be within tolerance

/// The share of values within tolerance. A NaN never exceeds the tolerance and so counts as right,
/// which is a common mistake of graders.
template <class Number>
double naive_share_right(const std::vector<Number>& got, const std::vector<Number>& want) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    if (std::fabs(got[i] - want[i]) > kNaiveTolerance + kNaiveTolerance * std::fabs(want[i])) ++wrong;
  return 1 - static_cast<double>(wrong) / std::max(1.0, static_cast<double>(want.size()));
}

}  // namespace lathe
