#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/convolve.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

std::vector<AttrRule> conv_transpose_rules() {
  std::vector<AttrRule> rules = window_rules();
  rules.push_back({"output_padding", AttrKind::kIntegers});
  rules.push_back({"groups", AttrKind::kInteger});
  return rules;
}

/// The transposed convolution of x [N, C, ...] with weight [C, O / groups, kernel...], plus bias
/// [O] if given. An extent becomes (in - 1) stride - 2 padding + dilation (kernel - 1) +
/// output_padding + 1.
class ConvTranspose final : public NamedOp {
 public:
  ConvTranspose(std::string_view name, std::size_t axes)
      : NamedOp({name, OpClass::kStencil, 2, 3, conv_transpose_rules()}), axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, axes_ + 2));
    LATHE_CHECK_OK(check_rank(context, 1, axes_ + 2));
    LATHE_CHECK_OK(check_window(context.attrs, axes_));
    const std::vector<Expr>& x = context.in[0].shape;
    const std::vector<Expr>& weight = context.in[1].shape;
    LATHE_TRY(const Expr groups, context.attrs.expression("groups", Expr::constant(1)));
    if (!context.same(weight[0], x[1]) || !context.same(x[1] / groups * groups, x[1])) {
      return invalid("weight " + describe(weight) + " in " + groups.to_string() + " groups does not fit " +
                         x[1].to_string() + " input channels",
                     "the weight is [inputs, outputs / groups, kernel...]");
    }
    SymbolicType result{context.in[0].dtype, {x[0], weight[1] * groups}};
    if (context.in.size() > 2) LATHE_CHECK_OK(check_shape(context, 2, {result.shape[1]}, "the outputs"));
    LATHE_TRY(const std::vector<Expr> extents, spatial_extents(context));
    result.shape.insert(result.shape.end(), extents.begin(), extents.end());
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const ConvSizes sizes = sizes_of(site);
    out.shape = site.out;
    evaluate_bilinear(
        *in[0], *in[1], terms(sizes), numerics,
        [&](const auto* x, const auto* w, auto* y) {
          convolve_transposed_fastest(sizes, site.products, x, w, y);
        },
        out);
    if (in.size() > 2) add_bias(*in[2], lines_along(site.out, 1).stride, numerics, out);
  }

  double flops(const OpSite& site) const override {
    const ConvSizes sizes = sizes_of(site);
    const double products = static_cast<double>(element_count(site.in[0]) * sizes.inputs * sizes.taps());
    return 2 * products + (site.in.size() > 2 ? static_cast<double>(element_count(site.out)) : 0);
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const ConvSizes sizes = sizes_of(site);
    const std::int64_t total = element_count(site.out), missing = total - demand.wanted;
    if (demand.input == 2) return spread_over(demand.wanted, total, site.out[1]);
    if (any_constant(demand)) return 0;
    const std::int64_t all = demand.input == 0
                                 ? sizes.batch * sizes.groups * sizes.outputs * positions_used(sizes.window)
                                 : sizes.groups * sizes.outputs * sizes.inputs * taps_used(sizes.window);
    return without(all, missing, sizes.outputs * sizes.taps());
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
               const Value x = zero_tail(*in[0], 1, shrinkage(site.in[0][1]));
               std::vector<const Value*> operands(in.begin(), in.end());
               operands[0] = &x;
               evaluate(site, operands, Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  Result<std::vector<Expr>> spatial_extents(const InferContext& context) const {
    LATHE_TRY(const auto extra, fixed_integers(context.attrs, "output_padding", {0}));
    if (extra.size() != 1 && extra.size() != axes_)
      return invalid("attribute 'output_padding' has a wrong length");
    const auto stride = per_axis(context.attrs, "stride", axes_, 1);
    const auto padding = per_axis(context.attrs, "padding", axes_, 0);
    const auto dilation = per_axis(context.attrs, "dilation", axes_, 1);
    const auto number = [](std::int64_t value) { return Expr::constant(value); };
    std::vector<Expr> extents;
    for (std::size_t i = 0; i < axes_; ++i) {
      const std::int64_t added = extra[extra.size() == 1 ? 0 : i];
      if (added < 0 || added >= std::max(stride[i], dilation[i])) {
        return invalid("attribute 'output_padding' must be at least 0 and less than stride or dilation");
      }
      const Expr spread = (context.in[0].shape[i + 2] - number(1)) * number(stride[i]);
      const Expr reach = (context.in[1].shape[i + 2] - number(1)) * number(dilation[i]);
      extents.push_back(spread + reach + number(added + 1 - 2 * padding[i]));
    }
    return extents;
  }

  /// The window of the convolution whose adjoint this is; its input is this op's output.
  ConvSizes sizes_of(const OpSite& site) const {
    const std::int64_t groups = site.attrs.integer("groups", 1);
    return {.window = make_window(site.attrs, site.out, site.in[1], site.in[0], axes_),
            .batch = site.in[0][0],
            .groups = groups,
            .inputs = site.in[1][1],
            .outputs = site.in[0][1] / groups};
  }

  /// Without dilation, at most ceil(kernel / stride) taps of each axis contribute to an output
  /// element.
  static double terms(const ConvSizes& sizes) {
    double count = static_cast<double>(sizes.outputs);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t step = sizes.window.dilation[axis] == 1 ? sizes.window.stride[axis] : 1;
      count *= static_cast<double>((sizes.window.kernel[axis] + step - 1) / step);
    }
    return count;
  }

  std::size_t axes_;
};

}  // namespace

void add_conv_transpose(OpList& list) {
  list.push_back(std::make_unique<ConvTranspose>("conv_transpose1d", 1));
  list.push_back(std::make_unique<ConvTranspose>("conv_transpose2d", 2));
  list.push_back(std::make_unique<ConvTranspose>("conv_transpose3d", 3));
}

}  // namespace lathe::ops
