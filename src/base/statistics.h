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
/// The mean of the middle half: robust like a median, but of two modes it shows how frequent each
/// is.
double interquartile_mean(std::span<const double> xs);
/// Linear-interpolation quantile, q in [0, 1].
double quantile(std::span<const double> xs, double q);
double geometric_mean(std::span<const double> xs);

/// Confidence interval for the centre of a symmetric distribution, by inverting Wilcoxon's
/// signed-rank test: `low` and `high` are order statistics of the n (n + 1) / 2 pairwise means, and
/// `mid` is their median (the Hodges-Lehmann estimator). Robust to outliers; on normal data it
/// needs 5% more samples than Student's t, where the median needs 57% more. Coverage >= 1 - alpha,
/// exact up to n = 64 and by the normal approximation beyond. With too few samples for that
/// coverage it is (-inf, mid, +inf).
Interval signed_rank_interval(std::span<const double> xs, double alpha);

/// The mean without the lowest and the highest value, and its standard error from the winsorised
/// deviation (Tukey and McLaughlin), which is t-distributed with n - 3 degrees of freedom. Requires
/// at least four values.
struct TrimmedMean {
  double mean = 0;
  double standard_error = 0;
};
TrimmedMean trimmed_mean(std::span<const double> xs);

/// Two-sided Student t quantile: t with P(|T_dof| <= t) = 1 - alpha. Hill's expansion (CACM 396),
/// |error| < 1e-3.
double student_t(double dof, double alpha);

/// Half the width of the interval that holds the mean of normal data with probability 1 - alpha.
/// Requires two samples.
double student_half_width(std::span<const double> xs, double alpha);

}  // namespace lathe
