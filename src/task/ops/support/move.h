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

/// The i-th element of each line of the result, along `axis`, is the input's at `source(i)`.
template <class Source>
void copy_lines(const OpSite& site, std::size_t axis, std::span<const Value* const> in, Source source,
                Value& out) {
  prepare_move(site, in, out);
  const Lines from = lines_along(site.in[0], axis), to = lines_along(site.out, axis);
  for (std::size_t line = 0; line < to.count; ++line)
    for (std::size_t i = 0; i < to.length; ++i) {
      const std::size_t at = to.start(line) + i * to.stride;
      const std::size_t place = from.start(line) + source(i) * from.stride;
      out.data[at] = in[0]->data[place];
      if (!out.err.empty()) out.err[at] = in[0]->err[place];
    }
}

}  // namespace lathe::ops
