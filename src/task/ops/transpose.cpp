#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

/// Axis i of the result is axis perm[i] of the input; by default the last two change places.
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

}  // namespace

void add_transpose(OpList& list) { list.push_back(std::make_unique<Transpose>()); }

}  // namespace lathe::ops
