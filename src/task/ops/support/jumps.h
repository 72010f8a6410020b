#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "task/dtype.h"
#include "task/ops/support/bounds.h"

/// Functions with jumps. Where an exact argument lies within its own error of a jump, the values on
/// both sides of it are right; everywhere else there is one, and of an exact input that is a tie as
/// well.
namespace lathe::ops {

/// How far a kernel's argument may be from `x`, as far as jumps are concerned, whose bound is
/// `error`. The bounds of exact ops allow for results that are flushed as denormals are: that takes
/// a value to zero, and no further.
inline double reach_to_jump(double x, double error) {
  if (error > kFlushes) return error;
  return std::fabs(x) <= error ? std::fabs(x) : 0;
}

/// The largest |f(x') - f(x)| that an error of x can cause in a monotone step function.
template <class F>
double spread_of_steps(F f, double x, double error) {
  const double reach = reach_to_jump(x, error), here = f(x);
  return reach == 0 ? 0 : std::max(std::fabs(f(x - reach) - here), std::fabs(f(x + reach) - here));
}

/// `at` and the values of the dtype next to it, with both signs.
inline void add_threshold(double at, DType dtype, std::vector<double>& values) {
  const DTypeInfo& type = info(dtype);
  const double binade = std::exp2(std::floor(std::log2(std::fabs(at))));
  const double above = at == 0 || !type.is_float ? type.smallest_normal : 2 * type.unit_roundoff * binade;
  const double below = at == binade && type.is_float ? above / 2 : above;
  for (const double value : {at, at - below, at + above}) {
    values.push_back(value);
    values.push_back(-value);
  }
}

/// Neighbours beyond the other integers that are drawn, so that whoever orders values by a part of
/// their bits takes one for the other.
inline std::vector<double> close_ends(DType dtype) {
  std::vector<double> values;
  if (info(dtype).is_float) add_threshold(5, dtype, values);
  return values;
}

}  // namespace lathe::ops
