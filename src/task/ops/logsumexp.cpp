#include "task/ops/support/reduce.h"
#include "task/ops/support/softmax_row.h"

namespace lathe::ops {
namespace {

Bounded logsumexp(const ReduceRow& row, const Attrs&, const Numerics& numerics) {
  const ExpSum total = sum_of_exp(row.x, row.err, numerics, {});
  return {total.top + std::log(total.sum), logsumexp_error(total, numerics)};
}

}  // namespace

void add_logsumexp(OpList& list) {
  list.push_back(std::make_unique<ReduceOp>(Reduction{"logsumexp", 3, logsumexp, true}));
}

}  // namespace lathe::ops
