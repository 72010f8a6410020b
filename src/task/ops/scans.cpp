#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

void cumsum_row(const RowView& row, const Numerics& numerics) {
  double total = 0;
  SumBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    row.y[i] = total += row.x[i];
    if (row.ey.empty()) continue;
    bound.add(row.x[i], row.error_at(i));
    row.ey[i] = bound.total(numerics);
  }
}

/// The bound of prod, for every prefix.
void cumprod_row(const RowView& row, const Numerics& numerics) {
  ProductBound bound;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    bound.add(row.x[i], row.error_at(i));
    row.y[i] = bound.product;
    if (!row.ey.empty()) row.ey[i] = bound.total(numerics);
  }
}

/// Inclusive prefixes along `axis` (default: the last).
class Scan final : public NamedOp {
 public:
  using RowFunction = void (*)(const RowView&, const Numerics&);
  Scan(std::string_view name, RowFunction compute)
      : NamedOp({name, OpClass::kScan, 1, 1, {{"axis", AttrKind::kInteger}}}), compute_(compute) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_numeric(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    for_each_line(lines_along(site.out, wrap_axis(site.attrs.integer("axis", -1), site.out.size())), *in[0],
                  out, [&](const RowView& row) { compute_(row, numerics); });
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  std::vector<OpMutant> mutants() const override {
    return {{"exclusive", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare(site.out, false, out);
               const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.out.size());
               for_each_line(lines_along(site.out, axis), *in[0], out, [&](const RowView& row) {
                 compute_(row, Numerics{.unit_roundoff = 0});
                 for (std::size_t i = row.y.size(); i-- > 1;) row.y[i] = row.y[i - 1];
                 row.y[0] = 0;
               });
             }}};
  }

 private:
  RowFunction compute_;
};

}  // namespace

void add_scans(OpList& list) {
  list.push_back(std::make_unique<Scan>("cumsum", cumsum_row));
  list.push_back(std::make_unique<Scan>("cumprod", cumprod_row));
}

}  // namespace lathe::ops
