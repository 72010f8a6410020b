#include "task/ops/support/reduce.h"

namespace lathe::ops {
namespace {

Bounded l1_norm(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  double total = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    total += std::fabs(row.x[i]);
    bound.add(row.x[i], row.error_at(i));
  }
  return {total, bound.total(numerics)};
}

/// Euclidean; over all axes of a matrix it is Frobenius's.
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

}  // namespace

void add_norms(OpList& list) {
  list.push_back(std::make_unique<ReduceOp>(Reduction{"l1_norm", 2, l1_norm}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"norm", 2, norm, true}));
}

}  // namespace lathe::ops
