#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/convolve.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

std::vector<AttrRule> conv_rules() {
  std::vector<AttrRule> rules = window_rules();
  rules.push_back({"groups", AttrKind::kInteger});
  return rules;
}

/// Convolves x [N, C, ...] with weight [O, C / groups, kernel...] and adds bias [O] if given;
/// padding is zeros.
class Conv final : public NamedOp {
 public:
  Conv(std::string_view name, std::size_t axes)
      : NamedOp({name, OpClass::kStencil, 2, 3, conv_rules()}), axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, axes_ + 2));
    LATHE_CHECK_OK(check_rank(context, 1, axes_ + 2));
    LATHE_CHECK_OK(check_window(context.attrs, axes_));
    const std::vector<Expr>& x = context.in[0].shape;
    const std::vector<Expr>& weight = context.in[1].shape;
    LATHE_TRY(const Expr groups, context.attrs.expression("groups", Expr::constant(1)));
    if (!context.same(weight[1] * groups, x[1]) || !context.same(weight[0] / groups * groups, weight[0])) {
      return invalid("weight " + describe(weight) + " in " + groups.to_string() + " groups does not fit " +
                         x[1].to_string() + " input channels",
                     "the weight is [outputs, inputs / groups, kernel...]");
    }
    if (context.in.size() > 2)
      LATHE_CHECK_OK(check_shape(context, 2, {weight[0]}, "the outputs of the weight"));
    SymbolicType result{context.in[0].dtype, {x[0], weight[0]}};
    for (std::size_t i = 0; i < axes_; ++i) {
      const AxisWindow window{per_axis(context.attrs, "stride", axes_, 1)[i],
                              per_axis(context.attrs, "padding", axes_, 0)[i],
                              per_axis(context.attrs, "dilation", axes_, 1)[i]};
      result.shape.push_back(window_positions(x[i + 2], weight[i + 2], window));
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const ConvSizes sizes = sizes_of(site);
    out.shape = site.out;
    evaluate_bilinear(
        *in[0], *in[1], static_cast<double>(sizes.inputs * sizes.taps()), numerics,
        [&](const auto* x, const auto* w, auto* y) { convolve_fastest(sizes, site.products, x, w, y); }, out);
    if (in.size() > 2) add_bias(*in[2], lines_along(site.out, 1).stride, numerics, out);
  }

  double flops(const OpSite& site) const override {
    const ConvSizes sizes = sizes_of(site);
    const double products = static_cast<double>(sizes.inputs * sizes.taps());
    return static_cast<double>(element_count(site.out)) * (2 * products + (site.in.size() > 2 ? 1 : 0));
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const ConvSizes sizes = sizes_of(site);
    const std::int64_t total = element_count(site.out), missing = total - demand.wanted;
    if (demand.input == 2) return spread_over(demand.wanted, total, site.out[1]);
    if (any_constant(demand)) return 0;
    const std::int64_t all = demand.input == 0
                                 ? sizes.batch * sizes.groups * sizes.inputs * coordinates_read(sizes.window)
                                 : sizes.groups * sizes.outputs * sizes.inputs * taps_used(sizes.window);
    return without(all, missing, sizes.inputs * sizes.taps());
  }

  double engine_multiplications(const OpSite& site) const override {
    return ops::engine_multiplications(sizes_of(site));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), Numerics{.unit_roundoff = 0}, out);
             }},
            {"shrunk_k", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t axis = site.in[1][1] > 1 ? 1 : site.in[1].size() - 1;
               const Value weight = zero_tail(*in[1], axis, shrinkage(site.in[1][axis]));
               std::vector<const Value*> operands(in.begin(), in.end());
               operands[1] = &weight;
               evaluate(site, operands, Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  ConvSizes sizes_of(const OpSite& site) const {
    const std::int64_t groups = site.attrs.integer("groups", 1);
    return {.window = make_window(site.attrs, site.in[0], site.in[1], site.out, axes_),
            .batch = site.in[0][0],
            .groups = groups,
            .inputs = site.in[1][1],
            .outputs = site.in[1][0] / groups};
  }

  std::size_t axes_;
};

}  // namespace

void add_conv(OpList& list) {
  list.push_back(std::make_unique<Conv>("conv1d", 1));
  list.push_back(std::make_unique<Conv>("conv2d", 2));
  list.push_back(std::make_unique<Conv>("conv3d", 3));
}

}  // namespace lathe::ops
