#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

/// Puts `before` and `after` elements of `value` (default 0) around the input along `axis` (default: the
/// last).
class Pad final : public MoveOp {
 public:
  Pad()
      : MoveOp({"pad",
                OpClass::kMove,
                1,
                1,
                {{"axis", AttrKind::kInteger},
                 {"before", AttrKind::kInteger},
                 {"after", AttrKind::kInteger},
                 {"value", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    for (const std::string_view side : {"before", "after"}) {
      LATHE_TRY(const Expr added, context.attrs.expression(side, Expr::constant(0)));
      if (!context.same(Expr::apply(">=", added, Expr::constant(0)), Expr::constant(1))) {
        return invalid("attribute '" + std::string(side) + "' must not be negative: " + added.to_string());
      }
      result.shape[axis] = result.shape[axis] + added;
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    std::ranges::fill(out.data, site.attrs.real("value", 0));
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block to = Block::whole(site.out);
    to.offset = site.attrs.integer("before", 0) * to.strides[axis];
    copy_block(site.in[0], Block::whole(site.in[0]), *in[0], to, out);
  }
};

}  // namespace

void add_pad(OpList& list) { list.push_back(std::make_unique<Pad>()); }

}  // namespace lathe::ops
