#include "task/ops/support/rowwise.h"

#include <limits>

namespace lathe::ops {

Moments moments(std::span<const double> x, std::span<const double> e, const Numerics& numerics) {
  const auto n = static_cast<double>(x.size());
  Moments result;
  SumBound sum;
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    total += x[i];
    sum.add(x[i], e.empty() ? 0 : e[i]);
  }
  result.mean = total / n;
  const double own = sum.own(numerics) / n + 2 * rounding(numerics, result.mean);
  result.mean_error = sum.propagated / n + own;

  double squares = 0;
  double deviations = 0;
  double carried = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - result.mean;
    squares += d * d;
    deviations += std::fabs(d);
    carried += e.empty() ? 0 : std::fabs(d) * e[i];
  }
  result.variance = squares / n;
  result.variance_error = 2 * carried / n + sum_error(numerics, n, result.variance) +
                          3 * rounding(numerics, result.variance) + 2 * deviations / n * own + own * own;
  return result;
}

double rsqrt_relative_error(double s, double error, const Numerics& numerics) {
  if (s <= error) return s == 0 && error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(s / (s - error)) - 1 + kTranscendental * numerics.unit_roundoff;
}

}  // namespace lathe::ops
