#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

/// Elements start, start + 1, ..., stop - 1 along `axis` (default: the last); 0 <= start < stop <= extent.
class Slice final : public MoveOp {
 public:
  Slice()
      : MoveOp(
            {"slice",
             OpClass::kMove,
             1,
             1,
             {{"axis", AttrKind::kInteger}, {"start", AttrKind::kInteger}, {"stop", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    Expr& extent = result.shape[axis];
    LATHE_TRY(const Expr start, context.attrs.expression("start", Expr::constant(0)));
    LATHE_TRY(const Expr stop, context.attrs.expression("stop", extent));
    const auto holds = [&](std::string_view order, const Expr& a, const Expr& b) {
      return context.same(Expr::apply(order, a, b), Expr::constant(1));
    };
    if (!holds("<=", Expr::constant(0), start) || !holds("<", start, stop) || !holds("<=", stop, extent)) {
      return invalid("slice [" + start.to_string() + ", " + stop.to_string() +
                         ") does not lie in an axis of " + extent.to_string(),
                     "use 0 <= start < stop <= the axis's extent");
    }
    extent = stop - start;
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    copy_from(site, in, site.attrs.integer("start", 0), out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"shifted", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               const std::int64_t start = site.attrs.integer("start", 0);
               const bool room = start + site.out[axis] < site.in[0][axis];
               if (room || start > 0) copy_from(site, in, room ? start + 1 : start - 1, out);
             }}};
  }

 private:
  static void copy_from(const OpSite& site, std::span<const Value* const> in, std::int64_t start,
                        Value& out) {
    prepare_move(site, in, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block from = Block::whole(site.in[0]);
    from.offset = start * from.strides[axis];
    copy_block(site.out, from, *in[0], Block::whole(site.out), out);
  }
};

}  // namespace

void add_slice(OpList& list) { list.push_back(std::make_unique<Slice>()); }

}  // namespace lathe::ops
