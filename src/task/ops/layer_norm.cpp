#include "task/ops/factories.h"
#include "task/ops/support/named_op.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// y = (x - mean) / sqrt(var + eps) * gamma + beta over the axes from `axis` (default: the last) to the end.
/// Inputs: x; gamma and beta with the shape of those axes, if given.
class LayerNorm final : public NamedOp {
 public:
  LayerNorm()
      : NamedOp({"layer_norm",
                 OpClass::kRowwise,
                 1,
                 3,
                 {{"axis", AttrKind::kInteger}, {"eps", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    const std::vector<Expr>& shape = context.in[0].shape;
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, shape.size()));
    const std::vector<Expr> normalised(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
    for (std::size_t i = 1; i < context.in.size(); ++i) {
      LATHE_CHECK_OK(check_shape(context, i, normalised, "that of the normalised axes of input 1"));
    }
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    const double eps = site.attrs.real("eps", 1e-5);
    for_each_line(lines_along(site.out, axis, site.out.size() - 1), *in[0], out, [&](const RowView& row) {
      normalise(row, eps, numerics);
      scale_and_shift(row, in, numerics);
    });
  }

  /// mean 1, deviation 1, variance 2, normalise 1, gamma 1, beta 1.
  double flops(const OpSite& site) const override {
    return (4 + static_cast<double>(site.in.size())) * static_cast<double>(element_count(site.out));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), Numerics{.unit_roundoff = 0}, out);
             }},
            {"dropped_mean", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Numerics exact{.unit_roundoff = 0};
               const double eps = site.attrs.real("eps", 1e-5);
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               prepare(site.out, false, out);
               for_each_line(lines_along(site.out, axis, site.out.size() - 1), *in[0], out,
                             [&](const RowView& row) {
                               const double scale = 1 / std::sqrt(moments(row.x, {}, exact).variance + eps);
                               for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = row.x[i] * scale;
                               scale_and_shift(row, in, exact);
                             });
             }}};
  }

 private:
  /// h = (x - mean) r. The deviation errs by e_i + dm + u|d|, and where a kernel folds the mean into a shift,
  /// by u|x| besides; r relatively as rsqrt does.
  static void normalise(const RowView& row, double eps, const Numerics& numerics) {
    const Moments m = moments(row.x, row.e, numerics);
    const double u = numerics.unit_roundoff;
    const double scale = 1 / std::sqrt(m.variance + eps);
    for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = (row.x[i] - m.mean) * scale;
    if (row.ey.empty()) return;
    const double relative = rsqrt_relative_error(
        m.variance + eps, m.variance_error + rounding(numerics, m.variance + eps), numerics);
    for (std::size_t i = 0; i < row.x.size(); ++i) {
      const double deviation = row.error_at(i) + m.mean_error + u * std::fabs(row.x[i]);
      const double h = std::fabs(row.y[i]);
      row.ey[i] = deviation * scale + (h + deviation * scale) * relative + 2 * u * h;
      if (u > 0) row.ey[i] += kTiny;
    }
  }

  static void scale_and_shift(const RowView& row, std::span<const Value* const> in,
                              const Numerics& numerics) {
    for (std::size_t i = 0; i < row.y.size(); ++i) {
      const double h = row.y[i];
      double error = row.ey.empty() ? 0 : row.ey[i];
      if (in.size() > 1) {
        row.y[i] *= in[1]->data[i];
        error = error * std::fabs(in[1]->data[i]) + (std::fabs(h) + error) * in[1]->error_at(i) +
                rounding(numerics, row.y[i]);
      }
      if (in.size() > 2) {
        row.y[i] += in[2]->data[i];
        error += in[2]->error_at(i) + rounding(numerics, row.y[i]);
      }
      if (!row.ey.empty()) row.ey[i] = error;
    }
  }
};

}  // namespace

void add_layer_norm(OpList& list) { list.push_back(std::make_unique<LayerNorm>()); }

}  // namespace lathe::ops
