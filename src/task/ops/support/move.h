#pragma once

#include <vector>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {

/// A strided block whose element i is at offset + sum i[k] * strides[k]; strides may be negative.
struct Block {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;

  static Block whole(const Shape& shape);
};

/// Copies the values and errors of a block with these extents. `to` must be allocated.
void copy_block(const Shape& extents, const Block& from_block, const Value& from, const Block& to_block,
                Value& to);

/// An op that only moves elements: no arithmetic, hence no error of its own.
class MoveOp : public NamedOp {
 public:
  using NamedOp::NamedOp;
  double flops(const OpSite&) const override { return 0; }
};

/// Allocates `out` for site.out, with errors only if an input has errors.
void prepare_move(const OpSite& site, std::span<const Value* const> in, Value& out);

}  // namespace lathe::ops
