#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// x - logsumexp(x) or (x - max) - log(sum), with each term rounded.
void log_softmax_row(const RowView& row, const Numerics& numerics) {
  const ExpSum total = sum_of_exp(row.x, row.e, numerics, {});
  const double logarithm = std::log(total.sum);
  const double common = row.ey.empty() ? 0 : logsumexp_error(total, numerics);
  const double u = numerics.unit_roundoff;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double shifted = row.x[i] - total.top;
    row.y[i] = shifted - logarithm;
    if (row.ey.empty()) continue;
    row.ey[i] = row.error_at(i) + common + u * (std::fabs(shifted) + std::fabs(row.y[i]));
  }
}

/// Over `axis`, by default the last.
class Softmax final : public NamedOp {
 public:
  using RowFunction = void (*)(const RowView&, const Numerics&);
  Softmax(std::string_view name, RowFunction compute)
      : NamedOp({name, OpClass::kRowwise, 1, 1, {{"axis", AttrKind::kInteger}}}), compute_(compute) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    for_each_line(lines_of(site), *in[0], out, [&](const RowView& row) { compute_(row, numerics); });
  }

  /// max, subtract, exp, sum, divide.
  double flops(const OpSite& site) const override { return 5 * static_cast<double>(element_count(site.out)); }

  std::vector<OpMutant> mutants() const override {
    return {{"wrong_axis", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (site.out.size() < 2) return;
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               prepare(site.out, false, out);
               for_each_line(lines_along(site.out, axis == 0 ? 1 : axis - 1), *in[0], out,
                             [&](const RowView& row) { compute_(row, Numerics{.unit_roundoff = 0}); });
             }}};
  }

 private:
  RowFunction compute_;
};

}  // namespace

void add_softmax(OpList& list) {
  list.push_back(std::make_unique<Softmax>("softmax", softmax_row));
  list.push_back(std::make_unique<Softmax>("log_softmax", log_softmax_row));
}

}  // namespace lathe::ops
