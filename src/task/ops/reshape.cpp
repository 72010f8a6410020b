#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

class SameElements : public MoveOp {
 public:
  using MoveOp::MoveOp;
  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    out = *in[0];
    out.shape = site.out;
  }
};

/// The same elements with extents `shape`; one of them may be -1: what is left.
class Reshape final : public SameElements {
 public:
  Reshape() : SameElements({"reshape", OpClass::kMove, 1, 1, {{"shape", AttrKind::kIntegers, true}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    LATHE_TRY(std::vector<Expr> shape, context.attrs.expressions("shape", {}));
    std::optional<std::size_t> open;
    std::vector<Expr> known;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (!context.same(shape[i], Expr::constant(-1))) {
        known.push_back(shape[i]);
      } else if (open.has_value()) {
        return invalid("attribute 'shape' has more than one -1");
      } else {
        open = i;
      }
    }
    const Expr total = product(x.shape);
    if (open.has_value()) shape[*open] = total / product(known);
    if (!context.same(product(shape), total)) {
      return invalid(describe(x) + " does not have the elements of " + describe(shape));
    }
    return SymbolicType{x.dtype, std::move(shape)};
  }
};

/// Merges the axes from `axis` (default 1) to the end.
class Flatten final : public SameElements {
 public:
  Flatten() : SameElements({"flatten", OpClass::kMove, 1, 1, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, 1, x.shape.size()));
    const auto middle = x.shape.begin() + static_cast<std::ptrdiff_t>(axis);
    SymbolicType result{x.dtype, {x.shape.begin(), middle}};
    result.shape.push_back(product({middle, x.shape.end()}));
    return result;
  }
};

}  // namespace

void add_reshape(OpList& list) {
  list.push_back(std::make_unique<Reshape>());
  list.push_back(std::make_unique<Flatten>());
}

}  // namespace lathe::ops
