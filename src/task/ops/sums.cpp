#include "task/ops/support/reduce.h"

namespace lathe::ops {
namespace {

Bounded sum(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  double total = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    total += row.x[i];
    bound.add(row.x[i], row.error_at(i));
  }
  return {total, bound.total(numerics), bound.terms(numerics)};
}

Bounded mean(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics) {
  const Bounded total = sum(row, attrs, numerics);
  const auto count = static_cast<double>(row.x.size());
  const double value = total.value / count;
  return {value, total.error / count + 2 * rounding(numerics, value), total.terms};
}

/// Every factor's relative error, and that of a sum of n terms for the products in any order. A partial
/// product that underflows loses kTiny, which later factors scale.
Bounded prod(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  double product = 1;
  double error = 0;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double e = row.error_at(i);
    error = error * (std::fabs(row.x[i]) + e) + std::fabs(product) * e;
    if (numerics.unit_roundoff > 0) error += kTiny;
    product *= row.x[i];
  }
  return {product, error + sum_error(numerics, static_cast<double>(row.x.size()), std::fabs(product))};
}

}  // namespace

void add_sums(OpList& list) {
  list.push_back(std::make_unique<ReduceOp>(Reduction{"sum", 1, sum}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"mean", 1, mean, true}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"prod", 1, prod}));
}

}  // namespace lathe::ops
