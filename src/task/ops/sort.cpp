#include <algorithm>
#include <cmath>

#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// As PyTorch orders them: NaN is above all numbers.
bool is_below(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

/// The value of each rank lies between those of the same rank among all lowest and all highest
/// values.
void sort_row(const RowView& row, bool descending) {
  const auto sorted = [&](double sign) {
    std::vector<double> values(row.x.begin(), row.x.end());
    for (std::size_t i = 0; sign != 0 && i < values.size(); ++i) values[i] += sign * row.error_at(i);
    std::ranges::sort(values, is_below);
    if (descending) std::ranges::reverse(values);
    return values;
  };
  std::ranges::copy(sorted(0), row.y.begin());
  if (row.ey.empty()) return;
  const std::vector<double> lowest = sorted(-1), highest = sorted(1);
  for (std::size_t i = 0; i < row.ey.size(); ++i) {
    const double error = std::max(highest[i] - row.y[i], row.y[i] - lowest[i]);
    row.ey[i] = std::isnan(error) ? 0 : error;
  }
}

/// The values along `axis` (default: the last) in ascending order, or descending.
class Sort final : public NamedOp {
 public:
  Sort()
      : NamedOp({"sort",
                 OpClass::kRowwise,
                 1,
                 1,
                 {{"axis", AttrKind::kInteger}, {"descending", AttrKind::kFlag}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_numeric(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    sort_lines(site, *in[0], site.attrs.flag("descending", false), out);
  }

  double flops(const OpSite& site) const override {
    const double length = static_cast<double>(lines_of(site).length);
    return static_cast<double>(element_count(site.out)) * std::log2(std::max(2.0, length));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"other_order", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare(site.out, false, out);
               sort_lines(site, *in[0], !site.attrs.flag("descending", false), out);
             }}};
  }

 private:
  static void sort_lines(const OpSite& site, const Value& x, bool descending, Value& out) {
    for_each_line(lines_of(site), x, out, [&](const RowView& row) { sort_row(row, descending); });
  }
};

}  // namespace

void add_sort(OpList& list) { list.push_back(std::make_unique<Sort>()); }

}  // namespace lathe::ops
