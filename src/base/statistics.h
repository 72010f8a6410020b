#pragma once

#include <span>
#include <vector>

namespace lathe {

struct Interval {
  double low = 0;
  double mid = 0;
  double high = 0;
};

double mean(std::span<const double> xs);
/// Sample standard deviation (n - 1); 0 for fewer than two values.
double stddev(std::span<const double> xs);
double median(std::span<const double> xs);
/// Linear-interpolation quantile, q in [0, 1].
double quantile(std::span<const double> xs, double q);
double geometric_mean(std::span<const double> xs);

/// Distribution-free confidence interval of the median from order statistics (binomial, p = 1/2), with
/// coverage >= 1 - alpha. With too few values for that coverage it is (-inf, median, +inf).
Interval median_interval(std::span<const double> xs, double alpha);

/// Two-sided Student t quantile: t with P(|T_dof| <= t) = 1 - alpha. Hill's expansion (CACM 396), |error| <
/// 1e-3.
double student_t(double dof, double alpha);

}  // namespace lathe
