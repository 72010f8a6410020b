#pragma once

#include <span>
#include <vector>

#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {

/// One line of a rowwise op, gathered into contiguous memory. `e` is empty if the input is exact,
/// `ey` if the result's error is not wanted.
struct RowView {
  std::span<const double> x;
  std::span<const double> e;
  std::span<double> y;
  std::span<double> ey;

  double error_at(std::size_t i) const { return e.empty() ? 0 : e[i]; }
};

/// Those of the result along the attribute `axis` (default: the last).
inline Lines lines_of(const OpSite& site) {
  return lines_along(site.out, wrap_axis(site.attrs.integer("axis", -1), site.out.size()));
}

/// Calls compute(const RowView&) for each line of x and stores the y and ey that it wrote. `out`
/// must be prepared.
template <class Compute>
void for_each_line(const Lines& lines, const Value& x, Value& out, Compute compute) {
  std::vector<double> values(lines.length);
  std::vector<double> errors(x.err.empty() ? 0 : lines.length);
  std::vector<double> result(lines.length);
  std::vector<double> result_error(out.err.empty() ? 0 : lines.length);
  for (std::size_t line = 0; line < lines.count; ++line) {
    const std::size_t start = lines.start(line);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = x.data[start + i * lines.stride];
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = x.err[start + i * lines.stride];
    compute(RowView{values, errors, result, result_error});
    for (std::size_t i = 0; i < result.size(); ++i) out.data[start + i * lines.stride] = result[i];
    for (std::size_t i = 0; i < result_error.size(); ++i) out.err[start + i * lines.stride] = result_error[i];
  }
}

/// Mean, variance and their error bounds, for a two-pass or Welford's algorithm:
///   mean  avg(e) + f(n) u avg|x|
///   var   avg(g (2|d| + g)) + (f(n) + 3) u avg((|d| + g)^2), g = e + dm, dm the mean's own rounding error,
/// because every deviation d is rounded and sees the mean's error; in a two-pass algorithm that
/// cancels to first order, in Welford's it does not. Nearly constant data has deviations of g's
/// size, so that the squares of g count.
struct Moments {
  double mean = 0;
  double variance = 0;
  double mean_error = 0;
  double variance_error = 0;
};
Moments moments(std::span<const double> x, std::span<const double> e, const Numerics& numerics);

/// The relative error of 1 / sqrt(s), rounding included, for s with an absolute error of `error`
/// that stays above `least`. Finite only if s > error or least > 0.
double rsqrt_relative_error(double s, double error, const Numerics& numerics, double least = 0);

/// y = (x - mean) / sqrt(var + eps). The error of a deviation is e_i + dm + u|d|, plus u|x| for
/// kernels that fold the mean into a shift.
void standardise(const RowView& row, double eps, const Numerics& numerics);

/// y[i] * gamma + beta in place. Either may be null; `channel` indexes them.
void scale_and_shift(const RowView& row, std::size_t i, const Value* gamma, const Value* beta,
                     std::size_t channel, const Numerics& numerics);

double largest(std::span<const double> x);

/// Up to such errors of exponents, that of a sum of exponentials is the mean of them, by weight.
inline constexpr double kSmallExponents = 0x1p-6;

/// The sum of exp(x - top) and its relative error:
///   sum p (e + u (2|x - top| + |top| + 4)) + f(n) u, p = exp(x - top) / sum
/// for x - top is rounded, and once more where exp scales it by log2(e), or x and top are scaled,
/// and rounded, before they are subtracted. Writes the terms to `terms` if it is not empty.
struct ExpSum {
  double top = 0;
  double sum = 0;
  double relative_error = 0;
  double carried = 0;  ///< of it, what the inputs' errors cause
};
ExpSum sum_of_exp(std::span<const double> x, std::span<const double> e, const Numerics& numerics,
                  std::span<double> terms);

/// y = exp(x - max) / sum, relatively good to e_i + u (2|x_i - max| + |max| + 4) + the sum's error +
/// 3 u.
void softmax_row(const RowView& row, const Numerics& numerics);

/// log(sum exp(x)) = max + log(sum): the sum's relative error, and the roundings of log, of the
/// addition and of the maximum's own exponent.
double logsumexp_error(const ExpSum& sum, const Numerics& numerics);

}  // namespace lathe::ops
