#include "task/ops/support/move.h"

namespace lathe::ops {

Block Block::whole(const Shape& shape) {
  Block block;
  for (const std::size_t stride : row_major_strides(shape))
    block.strides.push_back(static_cast<std::int64_t>(stride));
  return block;
}

void copy_block(const Shape& extents, const Block& from_block, const Value& from, const Block& to_block,
                Value& to) {
  const std::int64_t total = element_count(extents);
  Shape index(extents.size(), 0);
  std::int64_t source = from_block.offset;
  std::int64_t target = to_block.offset;
  for (std::int64_t done = 0; done < total; ++done) {
    to.data[static_cast<std::size_t>(target)] = from.data[static_cast<std::size_t>(source)];
    if (!from.err.empty())
      to.err[static_cast<std::size_t>(target)] = from.err[static_cast<std::size_t>(source)];
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      source += from_block.strides[axis];
      target += to_block.strides[axis];
      if (++index[axis] < extents[axis]) break;
      source -= extents[axis] * from_block.strides[axis];
      target -= extents[axis] * to_block.strides[axis];
      index[axis] = 0;
    }
  }
}

void prepare_move(const OpSite& site, std::span<const Value* const> in, Value& out) {
  prepare(site.out, needs_error(in, Numerics{.unit_roundoff = 0}), out);
  for (const Value* value : in) out.terms = std::max(out.terms, value->terms);
}

}  // namespace lathe::ops
