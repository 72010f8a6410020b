#pragma once

#include "task/ops/support/rowwise.h"

namespace lathe::ops {

double largest(std::span<const double> x);

/// The sum of exp(x - top) and its relative error:
///   sum p (e + u (2|x - top| + 4)) + f(n) u, p = exp(x - top) / sum
/// for x - top is rounded, and once more where exp scales it by log2(e). Writes the terms to `terms` if it is
/// not empty.
struct ExpSum {
  double top = 0;
  double sum = 0;
  double relative_error = 0;
  double carried = 0;  ///< of it, what the inputs' errors cause
};
ExpSum sum_of_exp(std::span<const double> x, std::span<const double> e, const Numerics& numerics,
                  std::span<double> terms);

/// y = exp(x - max) / sum, relatively good to e_i + u (2|x_i - max| + 4) + the sum's error + 3 u.
void softmax_row(const RowView& row, const Numerics& numerics);

/// log(sum exp(x)) = max + log(sum): the sum's relative error, and the roundings of log, of the addition and
/// of the maximum's own exponent.
double logsumexp_error(const ExpSum& sum, const Numerics& numerics);

}  // namespace lathe::ops
