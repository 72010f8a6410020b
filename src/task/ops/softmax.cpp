#include <limits>

#include "task/ops/factories.h"
#include "task/ops/support/named_op.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

double largest(std::span<const double> x) {
  double result = -std::numeric_limits<double>::infinity();
  for (const double value : x) result = value > result || std::isnan(value) ? value : result;
  return result;
}

/// exp(x - max) over its sum. Relative error of an element, with t = x - max and p = y:
///   e_i + sum p e  (carried)  +  u (2|t_i| + 4 + sum p (2|t| + 4) + lambda sqrt(n) + 3)
/// for t is rounded, and once more where exp scales it by log2(e); exp, sum and division add theirs.
void softmax_row(const RowView& row, const Numerics& numerics) {
  const double top = largest(row.x);
  const double u = numerics.unit_roundoff;
  double sum = 0;
  for (std::size_t i = 0; i < row.x.size(); ++i) sum += row.y[i] = std::exp(row.x[i] - top);
  double common = 0;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    row.y[i] /= sum;
    if (row.ey.empty()) continue;
    row.ey[i] = row.error_at(i) + u * (2 * std::fabs(row.x[i] - top) + kTranscendental);
    if (row.y[i] > 0) common += row.y[i] * row.ey[i];
  }
  common += u * (numerics.lambda * std::sqrt(static_cast<double>(row.x.size())) + 3);
  for (std::size_t i = 0; i < row.ey.size(); ++i) {
    row.ey[i] = row.y[i] > 0 ? row.y[i] * (row.ey[i] + common) : 0;
    if (u > 0) row.ey[i] += kFlush;
  }
}

class Softmax final : public NamedOp {
 public:
  Softmax() : NamedOp({"softmax", OpClass::kRowwise, 1, 1, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    for_each_line(lines_along(site.out, wrap_axis(site.attrs.integer("axis", -1), site.out.size())), *in[0],
                  out, [&](const RowView& row) { softmax_row(row, numerics); });
  }

  /// max, subtract, exp, sum, divide.
  double flops(const OpSite& site) const override { return 5 * static_cast<double>(element_count(site.out)); }

  std::vector<OpMutant> mutants() const override {
    return {{"wrong_axis", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (site.out.size() < 2) return;
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               prepare(site.out, false, out);
               for_each_line(lines_along(site.out, axis == 0 ? 1 : axis - 1), *in[0], out,
                             [](const RowView& row) { softmax_row(row, Numerics{.unit_roundoff = 0}); });
             }}};
  }
};

}  // namespace

void add_softmax(OpList& list) { list.push_back(std::make_unique<Softmax>()); }

}  // namespace lathe::ops
