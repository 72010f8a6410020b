#include "task/ops/support/reduce.h"

namespace lathe::ops {
namespace {

/// The largest of perturbed values moves at most as far as the most perturbed one.
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

}  // namespace

void add_extrema(OpList& list) {
  list.push_back(std::make_unique<ReduceOp>(Reduction{"reduce_max", 1, extremum<true>}));
  list.push_back(std::make_unique<ReduceOp>(Reduction{"reduce_min", 1, extremum<false>}));
}

}  // namespace lathe::ops
