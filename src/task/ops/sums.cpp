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
  return {total, bound.total(numerics)};
}

Bounded mean(const ReduceRow& row, const Attrs& attrs, const Numerics& numerics) {
  const Bounded total = sum(row, attrs, numerics);
  const auto count = static_cast<double>(row.x.size());
  const double value = total.value / count;
  return {value, total.error / count + 2 * rounding(numerics, value)};
}

}  // namespace

void add_sums(OpList& list) {
  list.push_back(std::make_unique<ReduceOp>(Reduction{"sum", 1, sum}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"mean", 1, mean, true}));
}

}  // namespace lathe::ops
