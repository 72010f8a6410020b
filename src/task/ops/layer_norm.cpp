#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

constexpr Numerics kExact{.unit_roundoff = 0};

double eps_of(const OpSite& site) { return site.attrs.real("eps", 1e-5); }

Lines normalised_lines(const OpSite& site) {
  const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
  return lines_along(site.out, axis, site.out.size() - 1);
}

void apply_affine(const RowView& row, std::span<const Value* const> in, const Numerics& numerics) {
  if (in.size() < 2) return;
  const Value* beta = in.size() > 2 ? in[2] : nullptr;
  for (std::size_t i = 0; i < row.y.size(); ++i) scale_and_shift(row, i, in[1], beta, i, numerics);
}

void without_mean(const OpSite& site, std::span<const Value* const> in, Value& out) {
  prepare(site.out, false, out);
  for_each_line(normalised_lines(site), *in[0], out, [&](const RowView& row) {
    const double scale = 1 / std::sqrt(moments(row.x, {}, kExact).variance + eps_of(site));
    for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = row.x[i] * scale;
    apply_affine(row, in, kExact);
  });
}

/// (x - mean) / sqrt(var + eps) * gamma + beta over the axes from `axis` (default: the last) to the
/// end. Inputs: x; gamma and beta with the shape of those axes, if given.
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
    for_each_line(normalised_lines(site), *in[0], out, [&](const RowView& row) {
      standardise(row, eps_of(site), numerics);
      apply_affine(row, in, numerics);
    });
  }

  /// mean 1, deviation 1, variance 2, normalise 1, gamma 1, beta 1.
  double flops(const OpSite& site) const override {
    return (4 + static_cast<double>(site.in.size())) * static_cast<double>(element_count(site.out));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), kExact, out);
             }},
            {"dropped_mean", without_mean}};
  }
};

}  // namespace

void add_layer_norm(OpList& list) { list.push_back(std::make_unique<LayerNorm>()); }

}  // namespace lathe::ops
