#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

constexpr int kMostInputs = 16;

/// Two or more tensors one after another along `axis` (default: the last).
class Concat final : public MoveOp {
 public:
  Concat() : MoveOp({"concat", OpClass::kMove, 2, kMostInputs, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    for (std::size_t i = 1; i < context.in.size(); ++i) {
      if (context.in[i].dtype != result.dtype) {
        return invalid("inputs 1 and " + std::to_string(i + 1) + " have different dtypes: " +
                       describe(context.in[0]) + " and " + describe(context.in[i]));
      }
      LATHE_CHECK_OK(check_rank(context, i, result.shape.size()));
      std::vector<Expr> expected = context.in[0].shape;
      expected[axis] = context.in[i].shape[axis];
      LATHE_CHECK_OK(check_shape(context, i, expected, "as input 1 beside axis " + std::to_string(axis)));
      result.shape[axis] = result.shape[axis] + context.in[i].shape[axis];
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    Block to = Block::whole(site.out);
    for (std::size_t i = 0; i < in.size(); ++i) {
      copy_block(site.in[i], Block::whole(site.in[i]), *in[i], to, out);
      to.offset += site.in[i][axis] * to.strides[axis];
    }
  }
};

}  // namespace

void add_concat(OpList& list) { list.push_back(std::make_unique<Concat>()); }

}  // namespace lathe::ops
