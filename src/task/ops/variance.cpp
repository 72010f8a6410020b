#include "task/ops/support/reduce.h"
#include "task/ops/support/rowwise.h"

namespace lathe::ops {
namespace {

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

}  // namespace

void add_variance(OpList& list) {
  const std::vector<AttrRule> rules{{"unbiased", AttrKind::kFlag}};
  list.push_back(std::make_unique<ReduceOp>(Reduction{"var", 4, variance, true, rules}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"std", 4, standard_deviation, true, rules}));
}

}  // namespace lathe::ops
