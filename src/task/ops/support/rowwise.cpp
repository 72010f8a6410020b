#include "task/ops/support/rowwise.h"

#include <limits>

#include "task/ops/support/textbook.h"

namespace lathe::ops {

Moments moments(std::span<const double> x, std::span<const double> e, const Numerics& numerics) {
  if (numerics.textbook) return textbook_moments(x);
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
  double shifted_squares = 0;
  double shifts = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::fabs(x[i] - result.mean);
    const double g = own + (e.empty() ? 0 : e[i]);
    squares += d * d;
    shifts += g * (2 * d + g);
    shifted_squares += (d + g) * (d + g);
  }
  result.variance = squares / n;
  const double order = sum.factor(numerics) * numerics.unit_roundoff * shifted_squares / n +
                       (numerics.unit_roundoff == 0 ? 0 : n * numerics.underflow);
  if (numerics.unit_roundoff > 0 && may_overflow(numerics, shifted_squares)) {
    result.variance_error = INFINITY;
    return result;
  }
  result.variance_error = shifts / n + order + 3 * rounding(numerics, shifted_squares / n);
  return result;
}

double rsqrt_relative_error(double s, double error, const Numerics& numerics, double least) {
  if (s == 0 && error == 0) return 0;
  if (std::isinf(error)) return INFINITY;
  const double lowest = std::max(s - error, least);
  if (lowest <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(s / lowest) - 1 + kTranscendental * numerics.unit_roundoff;
}

void standardise(const RowView& row, double eps, const Numerics& numerics) {
  const Moments m = moments(row.x, row.e, numerics);
  const double u = numerics.unit_roundoff;
  const double spread = m.variance + eps;
  const double scale = 1 / std::sqrt(spread);
  for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = (row.x[i] - m.mean) * scale;
  if (row.ey.empty()) return;
  const double relative =
      rsqrt_relative_error(spread, m.variance_error + rounding(numerics, spread), numerics, eps * (1 - u));
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double deviation = (row.error_at(i) + m.mean_error + u * std::fabs(row.x[i])) * scale;
    const double h = std::fabs(row.y[i]);
    row.ey[i] = deviation + (h + deviation) * relative + 2 * u * h + (u > 0 ? numerics.underflow : 0);
  }
}

void scale_and_shift(const RowView& row, std::size_t i, const Value* gamma, const Value* beta,
                     std::size_t channel, const Numerics& numerics) {
  const double h = std::fabs(row.y[i]);
  double error = row.ey.empty() ? 0 : row.ey[i];
  if (gamma != nullptr) {
    row.y[i] *= gamma->data[channel];
    error = error * std::fabs(gamma->data[channel]) + (h + error) * gamma->error_at(channel) +
            rounding(numerics, row.y[i]);
  }
  if (beta != nullptr) {
    row.y[i] += beta->data[channel];
    error += beta->error_at(channel) + rounding(numerics, row.y[i]);
  }
  if (!row.ey.empty()) row.ey[i] = error;
}

double largest(std::span<const double> x) {
  double result = -std::numeric_limits<double>::infinity();
  for (const double value : x) result = value > result || std::isnan(value) ? value : result;
  return result;
}

namespace {

/// How much larger the logarithm of the sum of exponentials is at x + e than at x. At x - e it is
/// smaller by no more, for it is convex.
double raised_by_errors(std::span<const double> x, std::span<const double> e, const ExpSum& sum) {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) top = std::max(top, x[i] + e[i]);
  if (std::isinf(top)) return top;
  for (std::size_t i = 0; i < x.size(); ++i) total += std::exp(x[i] + e[i] - top);
  return top - sum.top + std::log(total / sum.sum);
}

}  // namespace

ExpSum sum_of_exp(std::span<const double> x, std::span<const double> e, const Numerics& numerics,
                  std::span<double> terms) {
  ExpSum result{.top = numerics.textbook ? 0 : largest(x)};
  double roundings = 0;
  SumBound bound;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double term = numerics.textbook ? textbook_exp(x[i]) : std::exp(x[i] - result.top);
    result.sum += term;
    if (!terms.empty()) terms[i] = term;
    bound.add(term, 0);
    if (term == 0) continue;
    roundings += term * (2 * std::fabs(x[i] - result.top) + kTranscendental);
    if (!e.empty()) result.carried += term * e[i];
  }
  result.carried /= result.sum;
  // What hardly counts may be the largest, if its error is.
  if (std::ranges::any_of(e, [](double error) { return error > kSmallExponents; }) && !numerics.textbook)
    result.carried = std::max(result.carried, raised_by_errors(x, e, result));
  result.relative_error =
      result.carried +
      numerics.unit_roundoff * (roundings / result.sum + std::fabs(result.top) + bound.factor(numerics));
  return result;
}

/// Up to such errors of its arguments, that of a softmax is their product with its value. Larger
/// ones may make any value of it, in place of the largest.
constexpr double kFirstOrder = 0.5;

void softmax_row(const RowView& row, const Numerics& numerics) {
  const ExpSum total = sum_of_exp(row.x, row.e, numerics, row.y);
  const double u = numerics.unit_roundoff;
  for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] /= total.sum;
  for (std::size_t i = 0; i < row.ey.size(); ++i) {
    const double exponent =
        u * (2 * std::fabs(row.x[i] - total.top) + std::fabs(total.top) + kTranscendental + 3);
    row.ey[i] = row.y[i] > 0 ? row.y[i] * (row.error_at(i) + exponent + total.relative_error) : 0;
    const double moved = row.error_at(i) + total.carried;
    const double own = 1 + exponent + total.relative_error - total.carried;  // of numerators beside their sum
    if (moved > kSmallExponents)
      row.ey[i] = std::max(row.ey[i], std::min(1.0, row.y[i] * std::expm1(moved)) * own);
    if (moved > kFirstOrder)
      row.ey[i] = std::max(row.ey[i],
                           std::min(1.0, std::exp(row.x[i] - total.top - std::log(total.sum) + moved)) * own);
    if (u > 0) row.ey[i] += kFlush;
  }
}

double logsumexp_error(const ExpSum& sum, const Numerics& numerics) {
  const double logarithm = std::log(sum.sum);
  return sum.relative_error + numerics.unit_roundoff * (std::fabs(sum.top) + kTranscendental * logarithm + 1 +
                                                        2 * std::fabs(sum.top + logarithm));
}

}  // namespace lathe::ops
