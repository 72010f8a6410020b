#include <algorithm>
#include <cmath>
#include <numeric>

#include "task/ops/factories.h"
#include "task/ops/support/jumps.h"
#include "task/ops/support/needs.h"
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

std::vector<AttrRule> order_rules() {
  return {{"axis", AttrKind::kInteger}, {"descending", AttrKind::kFlag}};
}

Status check_line(const InferContext& context) {
  LATHE_CHECK_OK(check_numeric(context));
  LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
  return Ok{};
}

double comparisons(const OpSite& site) {
  const double length = static_cast<double>(lines_of(site).length);
  return static_cast<double>(element_count(site.out)) * std::log2(std::max(2.0, length));
}

/// The values along `axis` (default: the last) in ascending order, or descending.
class Sort final : public NamedOp {
 public:
  Sort() : NamedOp({"sort", OpClass::kRowwise, 1, 1, order_rules()}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_line(context));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    sort_lines(site, *in[0], site.attrs.flag("descending", false), out);
  }

  double flops(const OpSite& site) const override { return comparisons(site); }

  std::vector<OpMutant> mutants() const override {
    return {{"other_order", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare(site.out, false, out);
               sort_lines(site, *in[0], !site.attrs.flag("descending", false), out);
             }}};
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType dtype) const override {
    return close_ends(dtype);
  }

 private:
  static void sort_lines(const OpSite& site, const Value& x, bool descending, Value& out) {
    for_each_line(lines_of(site), x, out, [&](const RowView& row) { sort_row(row, descending); });
  }
};

/// The int64 indices along `axis` (default: the last) of the values in ascending order, or
/// descending; of equal ones the first comes first. It is no rowwise op, for a line's values are
/// read while its result is written.
class ArgSort final : public NamedOp {
 public:
  ArgSort() : NamedOp({"argsort", OpClass::kOther, 1, 1, order_rules()}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_line(context));
    return SymbolicType{DType::kI64, context.in[0].shape};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    order_lines(site, *in[0], site.attrs.flag("descending", false), 0, out);
  }

  double flops(const OpSite& site) const override { return comparisons(site); }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return any_constant(demand) || lines_of(site).length < 2 ? 0 : demand.wanted;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"other_order",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               order_lines(site, *in[0], !site.attrs.flag("descending", false), 0, out);
             }},
            {"counted_from_one", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               order_lines(site, *in[0], site.attrs.flag("descending", false), 1, out);
             }}};
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType dtype) const override {
    return close_ends(dtype);
  }

 private:
  static void order_lines(const OpSite& site, const Value& x, bool descending, std::size_t first,
                          Value& out) {
    prepare(site.out, false, out);
    const Lines lines = lines_of(site);
    std::vector<std::size_t> order(lines.length);
    for_each_line(lines, x, out, [&](const RowView& row) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return descending ? is_below(row.x[b], row.x[a]) : is_below(row.x[a], row.x[b]);
      });
      for (std::size_t i = 0; i < order.size(); ++i) row.y[i] = static_cast<double>(first + order[i]);
    });
  }
};

}  // namespace

void add_sort(OpList& list) {
  list.push_back(std::make_unique<Sort>());
  list.push_back(std::make_unique<ArgSort>());
}

}  // namespace lathe::ops
