#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// y = x / max(norm, eps); with errors e in x, the norm's error follows from that of its square.
void normalize_row(const RowView& row, double eps, const Numerics& numerics) {
  double squares = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double e = row.error_at(i);
    squares += row.x[i] * row.x[i];
    bound.add(row.x[i] * row.x[i], (2 * std::fabs(row.x[i]) + e) * e);
  }
  const double norm = std::max(std::sqrt(squares), eps);
  for (std::size_t i = 0; i < row.x.size(); ++i) row.y[i] = row.x[i] / norm;
  const double u = numerics.unit_roundoff;
  const double relative =
      sqrt_error(std::max(squares, eps * eps), bound.total(numerics)) / norm + (kTranscendental + 2) * u;
  for (std::size_t i = 0; i < row.ey.size(); ++i) {
    const double carried = row.error_at(i) / norm;
    row.ey[i] = carried + (std::fabs(row.y[i]) + carried) * relative + (u > 0 ? numerics.underflow : 0);
  }
}

/// x / max(|x|_2, eps) along `axis`, by default the last.
class L2Normalize final : public NamedOp {
 public:
  L2Normalize()
      : NamedOp({"l2_normalize",
                 OpClass::kRowwise,
                 1,
                 1,
                 {{"axis", AttrKind::kInteger}, {"eps", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const double eps = site.attrs.real("eps", 1e-12);
    for_each_line(lines_of(site), *in[0], out,
                  [&](const RowView& row) { normalize_row(row, eps, numerics); });
  }

  double flops(const OpSite& site) const override { return 3 * static_cast<double>(element_count(site.out)); }
};

}  // namespace

void add_l2_normalize(OpList& list) { list.push_back(std::make_unique<L2Normalize>()); }

}  // namespace lathe::ops
