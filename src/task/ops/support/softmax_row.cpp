#include "task/ops/support/softmax_row.h"

#include <limits>

namespace lathe::ops {

double largest(std::span<const double> x) {
  double result = -std::numeric_limits<double>::infinity();
  for (const double value : x) result = value > result || std::isnan(value) ? value : result;
  return result;
}

ExpSum sum_of_exp(std::span<const double> x, std::span<const double> e, const Numerics& numerics,
                  std::span<double> terms) {
  ExpSum result{.top = largest(x)};
  double roundings = 0;
  double nonzero = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double term = std::exp(x[i] - result.top);
    result.sum += term;
    if (!terms.empty()) terms[i] = term;
    if (term == 0) continue;
    nonzero += 1;
    roundings += term * (2 * std::fabs(x[i] - result.top) + kTranscendental);
    if (!e.empty()) result.carried += term * e[i];
  }
  result.carried /= result.sum;
  const double order = sum_factor(numerics, numerics.sparse_sums ? nonzero : static_cast<double>(x.size()));
  result.relative_error = result.carried + numerics.unit_roundoff * (roundings / result.sum + order);
  return result;
}

void softmax_row(const RowView& row, const Numerics& numerics) {
  const ExpSum total = sum_of_exp(row.x, row.e, numerics, row.y);
  const double u = numerics.unit_roundoff;
  for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] /= total.sum;
  for (std::size_t i = 0; i < row.ey.size(); ++i) {
    const double exponent = u * (2 * std::fabs(row.x[i] - total.top) + kTranscendental + 3);
    row.ey[i] = row.y[i] > 0 ? row.y[i] * (row.error_at(i) + exponent + total.relative_error) : 0;
    if (u > 0) row.ey[i] += kFlush;
  }
}

double logsumexp_error(const ExpSum& sum, const Numerics& numerics) {
  const double logarithm = std::log(sum.sum);
  return sum.relative_error + numerics.unit_roundoff * (std::fabs(sum.top) + kTranscendental * logarithm + 1 +
                                                        2 * std::fabs(sum.top + logarithm));
}

}  // namespace lathe::ops
