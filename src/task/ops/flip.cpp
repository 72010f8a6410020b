#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

/// The elements along `axis` (default: the last) in reverse.
class Flip final : public MoveOp {
 public:
  Flip() : MoveOp({"flip", OpClass::kMove, 1, 1, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block from = Block::whole(site.in[0]);
    from.offset = (site.out[axis] - 1) * from.strides[axis];
    from.strides[axis] = -from.strides[axis];
    copy_block(site.out, from, *in[0], Block::whole(site.out), out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"not_moved", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               out.shape = site.out;
               out.data = in[0]->data;
             }}};
  }
};

}  // namespace

void add_flip(OpList& list) { list.push_back(std::make_unique<Flip>()); }

}  // namespace lathe::ops
