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

/// The same elements with extents `shape`, one of which may be -1 and is then inferred.
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

/// Axis i of the result is axis perm[i] of the input; by default the last two axes are swapped.
class Transpose final : public MoveOp {
 public:
  Transpose() : MoveOp({"transpose", OpClass::kMove, 1, 1, {{"perm", AttrKind::kIntegers}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    if (x.shape.size() < 2) return invalid("input 1 must have rank 2 or more, got " + describe(x));
    LATHE_TRY(const auto given, fixed_integers(context.attrs, "perm", {}));
    if (context.attrs.has("perm") && given.size() != x.shape.size()) {
      return invalid("attribute 'perm' has " + std::to_string(given.size()) + " numbers for " + describe(x));
    }
    SymbolicType result{x.dtype, {}};
    std::vector<bool> seen(x.shape.size(), false);
    for (const std::int64_t axis : given) {
      LATHE_TRY(const std::size_t from, check_axis(axis, x.shape.size()));
      if (seen[from]) return invalid("attribute 'perm' names axis " + std::to_string(axis) + " twice");
      seen[from] = true;
      result.shape.push_back(x.shape[from]);
    }
    if (!given.empty()) return result;
    result.shape = x.shape;
    std::swap(result.shape[x.shape.size() - 1], result.shape[x.shape.size() - 2]);
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in, out);
    const Block whole = Block::whole(site.in[0]);
    Block from = whole;
    const std::size_t rank = site.out.size();
    const auto perm = site.attrs.integers("perm", {});
    for (std::size_t i = 0; i < perm.size(); ++i) from.strides[i] = whole.strides[wrap_axis(perm[i], rank)];
    if (perm.empty()) std::swap(from.strides[rank - 1], from.strides[rank - 2]);
    copy_block(site.out, from, *in[0], Block::whole(site.out), out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"not_moved", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               out.shape = site.out;
               out.data = in[0]->data;
             }}};
  }
};

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

void add_layout(OpList& list) {
  list.push_back(std::make_unique<Reshape>());
  list.push_back(std::make_unique<Flatten>());
  list.push_back(std::make_unique<Transpose>());
  list.push_back(std::make_unique<Flip>());
}

}  // namespace lathe::ops
