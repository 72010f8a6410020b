#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// y = x / sqrt(mean(x^2) + eps). Relative error of y: that of the root, carried by avg(2|x| e),
/// and 2 u.
void rms_row(const RowView& row, double eps, const Numerics& numerics) {
  const auto n = static_cast<double>(row.x.size());
  double squares = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double e = row.error_at(i);
    squares += row.x[i] * row.x[i];
    bound.add(row.x[i] * row.x[i], (2 * std::fabs(row.x[i]) + e) * e);
  }
  const double spread = squares / n + eps;
  const double scale = 1 / std::sqrt(spread);
  for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = row.x[i] * scale;
  if (row.ey.empty()) return;
  const double u = numerics.unit_roundoff;
  const double relative = rsqrt_relative_error(
      spread, bound.total(numerics) / n + 3 * rounding(numerics, spread), numerics, eps * (1 - u));
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double carried = row.error_at(i) * scale;
    const double h = std::fabs(row.y[i]);
    row.ey[i] = carried + (h + carried) * relative + 2 * u * h + (u > 0 ? numerics.underflow : 0);
  }
}

/// x / sqrt(mean(x^2) + eps) * gamma over the axes from `axis` (default: the last) to the end.
class RmsNorm final : public NamedOp {
 public:
  RmsNorm()
      : NamedOp(
            {"rms_norm", OpClass::kRowwise, 1, 2, {{"axis", AttrKind::kInteger}, {"eps", AttrKind::kReal}}}) {
  }

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    const std::vector<Expr>& shape = context.in[0].shape;
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, shape.size()));
    const std::vector<Expr> normalised(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
    if (context.in.size() > 1) {
      LATHE_CHECK_OK(check_shape(context, 1, normalised, "that of the normalised axes of input 1"));
    }
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
    const double eps = site.attrs.real("eps", 1e-5);
    for_each_line(lines_along(site.out, axis, site.out.size() - 1), *in[0], out, [&](const RowView& row) {
      rms_row(row, eps, numerics);
      if (in.size() < 2) return;
      for (std::size_t i = 0; i < row.y.size(); ++i) scale_and_shift(row, i, in[1], nullptr, i, numerics);
    });
  }

  /// square 1, sum 1, normalise 1, gamma 1.
  double flops(const OpSite& site) const override {
    return (2 + static_cast<double>(site.in.size())) * static_cast<double>(element_count(site.out));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_gamma", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 2) evaluate(site, in.first(1), Numerics{.unit_roundoff = 0}, out);
             }}};
  }
};

}  // namespace

void add_rms_norm(OpList& list) { list.push_back(std::make_unique<RmsNorm>()); }

}  // namespace lathe::ops
