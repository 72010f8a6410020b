#include "task/ops/support/reduce.h"
#include "task/ops/support/rowwise.h"

namespace lathe::ops {
namespace {

Bounded sum(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  WideSum total;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    total.add(row.x[i]);
    bound.add(row.x[i], row.error_at(i));
  }
  return {total.value(), bound.total(numerics), bound.terms(numerics)};
}

Bounded mean(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics) {
  const Bounded total = sum(row, attrs, numerics);
  const auto count = static_cast<double>(row.x.size());
  const double value = total.value / count;
  return {value, total.error / count + 2 * rounding(numerics, value), total.terms};
}

Bounded prod(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  ProductBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) bound.add(row.x[i], row.error_at(i));
  return {bound.product, bound.total(numerics)};
}

/// An extremum of perturbed values moves at most by the largest perturbation.
template <bool kLargest>
Bounded extremum(const ReduceRow& row, const Attrs&, const Numerics&) {
  Bounded result{row.x[0], row.error_at(0)};
  for (std::size_t i = 1; i < row.x.size(); ++i) {
    const bool better = kLargest ? row.x[i] > result.value : row.x[i] < result.value;
    if (better || std::isnan(row.x[i])) result.value = row.x[i];
    result.error = std::max(result.error, row.error_at(i));
  }
  return result;
}

/// Divides by n, or by n - 1 if `unbiased`.
Bounded variance(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics) {
  const Moments m = moments(row.x, row.err, numerics);
  if (!attrs.flag("unbiased", false)) return {m.variance, m.variance_error};
  const auto n = static_cast<double>(row.x.size());
  const double correction = n / (n - 1);
  return {m.variance * correction, m.variance_error * correction + rounding(numerics, m.variance)};
}

Bounded standard_deviation(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics) {
  const Bounded squared = variance(row, attrs, numerics);
  const double value = std::sqrt(squared.value);
  return {value, sqrt_error(squared.value, squared.error) + 2 * rounding(numerics, value)};
}

Bounded l1_norm(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  WideSum total;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    total.add(std::fabs(row.x[i]));
    bound.add(row.x[i], row.error_at(i));
  }
  return {total.value(), bound.total(numerics)};
}

/// The Euclidean norm; over all axes of a matrix, the Frobenius norm.
Bounded norm(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  double squares = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double e = row.error_at(i);
    squares += row.x[i] * row.x[i];
    bound.add(row.x[i] * row.x[i], (2 * std::fabs(row.x[i]) + e) * e);
  }
  const double value = std::sqrt(squares);
  return {value, sqrt_error(squares, bound.total(numerics)) + 2 * rounding(numerics, value)};
}

Bounded logsumexp(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  const ExpSum total = sum_of_exp(row.x, row.err, numerics, {});
  return {total.top + std::log(total.sum), logsumexp_error(total, numerics)};
}

/// Whether an element holds, or all do. Open ones, on whose jumps' both sides values are right,
/// leave the result open unless another settles it.
template <bool kAny>
Bounded connected(const ReduceRow& row, const Attrs&, const Numerics&) {
  Bounded result{kAny ? 0.0 : 1.0, 0};
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const bool settles = (row.x[i] != 0) == kAny;
    if (settles && row.error_at(i) == 0) return {kAny ? 1.0 : 0.0, 0};
    if (settles) result.value = kAny ? 1 : 0;
    if (row.error_at(i) > 0) result.error = 1;
  }
  return result;
}

}  // namespace

void add_reductions(OpList& list) {
  const std::vector<AttrRule> unbiased{{"unbiased", AttrKind::kFlag}};
  const Reduction rows[] = {
      {"sum", 1, sum},
      {"mean", 1, mean, true},
      {"prod", 1, prod},
      {"reduce_max", 1, extremum<true>},
      {"reduce_min", 1, extremum<false>},
      {"var", 4, variance, true, unbiased},
      {"std", 4, standard_deviation, true, unbiased},
      {"l1_norm", 2, l1_norm},
      {"norm", 2, norm, true},
      {"logsumexp", 3, logsumexp, true},
      {"any", 1, connected<true>, false, {}, true},
      {"all", 1, connected<false>, false, {}, true},
  };
  for (const Reduction& row : rows) list.push_back(std::make_unique<ReduceOp>(row));
}

}  // namespace lathe::ops
