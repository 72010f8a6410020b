#include <limits>

#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

std::size_t axis_of(const OpSite& site) {
  return wrap_axis(site.attrs.integer("axis", -1), site.in[0].size());
}

/// Elements of x along `axis` (default: the last), each line's selected by a line of its own of an
/// integer tensor (torch.take_along_dim). An index outside the axis gives NaN.
class TakeAlong final : public MoveOp {
 public:
  TakeAlong() : MoveOp({"take_along", OpClass::kMove, 2, 2, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    const SymbolicType& index = context.in[1];
    LATHE_CHECK_OK(check_index(context, 1));
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, x.shape.size()));
    std::vector<Expr> shape = x.shape;
    if (axis < index.shape.size()) shape[axis] = index.shape[axis];
    LATHE_CHECK_OK(check_shape(context, 1, shape, "the shape of input 1 beside the axis"));
    return SymbolicType{x.dtype, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    take(
        site, in, [](std::size_t line) { return line; }, out);
  }

  /// Elements of a line may repeat.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const std::size_t axis = axis_of(site);
    if (any_constant(demand) || demand.wanted <= 0) return 0;
    if (demand.input == 0) return (demand.wanted + site.out[axis] - 1) / site.out[axis];
    return site.in[0][axis] < 2 ? 0 : demand.wanted;
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] + in[1] > 0 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"first_element",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value zeros{in[1]->shape, std::vector<double>(in[1]->data.size()), {}};
               const Value* const operands[] = {in[0], &zeros};
               evaluate(site, operands, Numerics{}, out);
             }},
            {"index_of_first_line", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               take(
                   site, in, [](std::size_t) { return std::size_t{0}; }, out);
             }}};
  }

 private:
  /// `index_line` says which line of the index belongs to a line of x.
  template <class IndexLine>
  static void take(const OpSite& site, std::span<const Value* const> in, IndexLine index_line, Value& out) {
    prepare_move(site, in.first(1), out);
    const Value& x = *in[0];
    const std::vector<double>& index = in[1]->data;
    const Lines from = lines_along(site.in[0], axis_of(site)), to = lines_along(site.out, axis_of(site));
    for (std::size_t line = 0; line < to.count; ++line) {
      for (std::size_t i = 0; i < to.length; ++i) {
        const double wanted = index[to.start(index_line(line)) + i * to.stride];
        const bool valid = is_place(wanted, from.length);
        const std::size_t source =
            from.start(line) + (valid ? static_cast<std::size_t>(wanted) : 0) * from.stride;
        const std::size_t at = to.start(line) + i * to.stride;
        out.data[at] = valid ? x.data[source] : std::numeric_limits<double>::quiet_NaN();
        if (!out.err.empty()) out.err[at] = x.error_at(source);
      }
    }
  }
};

}  // namespace

void add_take_along(OpList& list) { list.push_back(std::make_unique<TakeAlong>()); }

}  // namespace lathe::ops
