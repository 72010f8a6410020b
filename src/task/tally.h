#pragma once

#include <cstddef>

namespace lathe {

/// How values lie to what is wanted of them.
struct Tally {
  bool outside = false;   ///< one beyond its tolerance, or NaN
  bool above = false;     ///< one beyond `ratio` times its tolerance, or NaN
  double square_sum = 0;  ///< of all differences
};

/// In one pass: this is most of what comparing a timed block costs.
Tally tally_of(const double* want, const double* tolerance, const double* got, std::size_t size,
               double ratio);

}  // namespace lathe
