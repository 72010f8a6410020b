#include "base/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace lathe {
namespace {

std::vector<double> sorted(std::span<const double> xs) {
  std::vector<double> copy(xs.begin(), xs.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

/// The normal z with P(|Z| > z) = alpha, by bisection: called rarely, so simplicity wins.
double normal_quantile(double alpha) {
  double low = 0, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double mid = (low + high) / 2;
    (std::erfc(mid / std::numbers::sqrt2) > alpha ? low : high) = mid;
  }
  return low;
}

/// How many values the signed-rank statistic of n symmetric values can take from its least on with
/// a probability of at most `tail` together.
std::size_t signed_rank_quantile(std::size_t n, double tail) {
  constexpr std::size_t kExact = 64;
  const auto count = static_cast<double>(n);
  if (n > kExact) {
    const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
    const double rank = count * (count + 1) / 4 - normal_quantile(2 * tail) * deviation;
    return static_cast<std::size_t>(std::max(0.0, std::floor(rank)));
  }
  // The statistic is the sum of the ranks of the positive values: rank r counts or not, each with p
  // = 1/2.
  std::vector<double> probability(n * (n + 1) / 2 + 1, 0.0);
  probability[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank)
    for (std::size_t sum = probability.size(); sum-- > 0;)
      probability[sum] = (probability[sum] + (sum >= rank ? probability[sum - rank] : 0)) / 2;
  std::size_t values = 0;
  for (double together = 0; values < probability.size(); ++values) {
    together += probability[values];
    if (together > tail) break;
  }
  return values;
}

}  // namespace

double mean(std::span<const double> xs) {
  assert(!xs.empty());
  return std::accumulate(xs.begin(), xs.end(), 0.0) / static_cast<double>(xs.size());
}

double stddev(std::span<const double> xs) {
  if (xs.size() < 2) return 0;
  const double center = mean(xs);
  double sum = 0;
  for (double x : xs) sum += (x - center) * (x - center);
  return std::sqrt(sum / static_cast<double>(xs.size() - 1));
}

double median(std::span<const double> xs) { return quantile(xs, 0.5); }

double quantile(std::span<const double> xs, double q) {
  assert(!xs.empty());
  const auto ordered = sorted(xs);
  const double rank = q * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const auto above = std::min(below + 1, ordered.size() - 1);
  const double weight = rank - static_cast<double>(below);
  return ordered[below] + weight * (ordered[above] - ordered[below]);
}

double geometric_mean(std::span<const double> xs) {
  assert(!xs.empty());
  double sum = 0;
  for (double x : xs) sum += std::log(x);
  return std::exp(sum / static_cast<double>(xs.size()));
}

Interval signed_rank_interval(std::span<const double> xs, double alpha) {
  assert(!xs.empty());
  std::vector<double> means;
  for (std::size_t i = 0; i < xs.size(); ++i)
    for (std::size_t j = i; j < xs.size(); ++j) means.push_back((xs[i] + xs[j]) / 2);
  std::sort(means.begin(), means.end());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Interval interval{-kInf, quantile(means, 0.5), kInf};
  const std::size_t skipped = signed_rank_quantile(xs.size(), alpha / 2);
  if (skipped > 0) {
    interval.low = means[skipped - 1];
    interval.high = means[means.size() - skipped];
  }
  return interval;
}

double interquartile_mean(std::span<const double> xs) {
  assert(!xs.empty());
  const std::vector<double> ordered = sorted(xs);
  const std::size_t tail = ordered.size() / 4;
  return mean(std::span(ordered).subspan(tail, ordered.size() - 2 * tail));
}

TrimmedMean trimmed_mean(std::span<const double> xs) {
  assert(xs.size() >= 4);
  std::vector<double> ordered = sorted(xs);
  const auto n = static_cast<double>(ordered.size());
  TrimmedMean trimmed{mean(std::span(ordered).subspan(1, ordered.size() - 2))};
  ordered.front() = ordered[1];
  ordered.back() = ordered[ordered.size() - 2];
  trimmed.standard_error = stddev(ordered) / ((1 - 2 / n) * std::sqrt(n));
  return trimmed;
}

double student_t(double dof, double alpha) {
  assert(dof >= 1 && alpha > 0 && alpha < 1);
  if (dof < 1.5) return 1.0 / std::tan(alpha * std::numbers::pi / 2);
  if (dof < 2.5) return std::sqrt(2.0 / (alpha * (2.0 - alpha)) - 2.0);
  const double a = 1.0 / (dof - 0.5);
  const double b = 48.0 / (a * a);
  double c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
  const double d = ((94.5 / (b + c) - 3.0) / b + 1.0) * std::sqrt(a * std::numbers::pi / 2) * dof;
  double x = d * alpha;
  double y = std::pow(x, 2.0 / dof);
  if (y > 0.05 + a) {
    x = -normal_quantile(alpha);
    y = x * x;
    if (dof < 5) c += 0.3 * (dof - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
    y = std::expm1(a * y * y);
  } else {
    y = ((1.0 / (((dof + 6.0) / (dof * y) - 0.089 * d - 0.822) * (dof + 2.0) * 3.0) + 0.5 / (dof + 4.0)) * y -
         1.0) *
            (dof + 1.0) / (dof + 2.0) +
        1.0 / y;
  }
  return std::sqrt(dof * y);
}

double student_half_width(std::span<const double> xs, double alpha) {
  const auto n = static_cast<double>(xs.size());
  return student_t(n - 1, alpha) * stddev(xs) / std::sqrt(n);
}

}  // namespace lathe
