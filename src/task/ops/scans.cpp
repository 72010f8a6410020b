#include "task/ops/factories.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"
#include "task/ops/support/textbook.h"

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

/// An extremum of perturbed values moves at most by the largest perturbation.
template <bool kLargest>
void extremum_row(const RowView& row, const Numerics&) {
  double best = row.x[0], error = 0;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    if (std::isnan(row.x[i]) || (kLargest ? row.x[i] > best : row.x[i] < best)) best = row.x[i];
    error = std::max(error, row.error_at(i));
    row.y[i] = best;
    if (!row.ey.empty()) row.ey[i] = error;
  }
}

/// What is added to a running sum of logarithms must be so many of its roundoffs for its roundings
/// to cancel.
constexpr double kEvenStep = 16;

double log_of_sum(double a, double b) {
  const double larger = std::max(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(-std::fabs(a - b)));
}

/// log(sum exp(x)) of every prefix. One that is carried on by logaddexp rounds at every step what
/// it hands on with its share of the sum; another adds up exponentials beside a maximum.
void logcumsumexp_row(const RowView& row, const Numerics& numerics) {
  const double u = numerics.unit_roundoff;
  double total = 0, y = -std::numeric_limits<double>::infinity(), top = y, stepped = 0, squares = 0,
         carried = 0, raised = y, largest_error = 0;
  SumBound sum;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double x = row.x[i], before = y, term = textbook_exp(x);
    total += term;
    sum.add(term, 0);
    top = std::max(top, x);
    const double larger = std::max(before, x), apart = std::fabs(before - x);
    const bool alone = std::isinf(larger) || std::isinf(apart) || std::isnan(apart);
    const double tail = alone ? 0 : std::log1p(std::exp(-apart));
    y = larger + tail;
    row.y[i] = numerics.textbook ? std::log(total) : y;
    if (row.ey.empty()) continue;
    const double kept = i == 0 ? 0 : std::min(1.0, std::exp(before - y));
    const double lesser = alone ? 0 : std::exp(-apart) / (1 + std::exp(-apart));
    carried = kept * carried + (1 - kept) * row.error_at(i);
    raised = log_of_sum(raised, x + row.error_at(i));
    largest_error = std::max(largest_error, row.error_at(i));
    if (largest_error > kSmallExponents) carried = std::max(carried, raised - y);
    const double step =
        std::fabs(y) + kTranscendental * tail + lesser * (kTranscendental + (1 + kScaledArgument) * apart);
    const double rounded = u * (alone ? 0 : step);
    const bool cancels = numerics.even_terms && 1 - kept > kEvenStep * u * std::fabs(y);
    stepped = kept * stepped + (cancels ? 0 : rounded);
    squares = kept * kept * squares + (cancels ? rounded * rounded : 0);
    const double summed = sum.factor(numerics) + 3 * std::fabs(top) +
                          (kTranscendental + 2) * std::fabs(y - top) + 2 * std::fabs(y);
    const double own = stepped + kEvenRunningLambda * std::sqrt(squares) + u * summed + (u > 0 ? kFlush : 0);
    row.ey[i] = i == 0 ? row.error_at(0) : carried + own;
  }
}

struct Running {
  std::string_view name;
  void (*row)(const RowView&, const Numerics&);
  std::optional<double> start;  ///< of nothing; only what has one can be exclusive
  bool float_only = false;
};

std::vector<AttrRule> rules(const Running& running) {
  std::vector<AttrRule> rules{{"axis", AttrKind::kInteger}, {"reverse", AttrKind::kFlag}};
  if (running.start) rules.push_back({"exclusive", AttrKind::kFlag});
  return rules;
}

/// Prefixes along `axis` (default: the last), from its end if `reverse`; each without its own
/// element if `exclusive`.
class Scan final : public NamedOp {
 public:
  explicit Scan(const Running& running)
      : NamedOp({running.name, OpClass::kScan, 1, 1, rules(running)}), running_(running) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(running_.float_only ? check_float(context) : check_numeric(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    run(site, *in[0], numerics, site.attrs.flag("reverse", false), site.attrs.flag("exclusive", false), out);
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  /// An exclusive line starts with a constant, for which nothing is read.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return std::max<std::int64_t>(0, NamedOp::needs(site, demand) - starts(site));
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return std::max(starts(site), NamedOp::constants(site, in));
  }

  std::vector<OpMutant> mutants() const override {
    std::vector<OpMutant> all;
    if (running_.start)
      all.push_back({"other_start", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
                       run(site, *in[0], Numerics{.unit_roundoff = 0}, site.attrs.flag("reverse", false),
                           !site.attrs.flag("exclusive", false), out);
                     }});
    all.push_back(
        {"other_direction", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
           run(site, *in[0], Numerics{.unit_roundoff = 0}, !site.attrs.flag("reverse", false),
               site.attrs.flag("exclusive", false), out);
         }});
    return all;
  }

 private:
  static std::int64_t starts(const OpSite& site) {
    return site.attrs.flag("exclusive", false) ? static_cast<std::int64_t>(lines_of(site).count) : 0;
  }

  void run(const OpSite& site, const Value& x, const Numerics& numerics, bool reverse, bool exclusive,
           Value& out) const {
    const Value* const in[] = {&x};
    prepare(site.out, needs_error(in, numerics), out);
    std::vector<double> values, errors;
    for_each_line(lines_of(site), x, out, [&](const RowView& row) {
      values.assign(row.x.begin(), row.x.end());
      errors.assign(row.e.begin(), row.e.end());
      if (reverse) {
        std::ranges::reverse(values);
        std::ranges::reverse(errors);
      }
      running_.row({values, errors, row.y, row.ey}, numerics);
      if (exclusive) {
        shift(row.y, *running_.start);
        shift(row.ey, 0);
      }
      if (reverse) {
        std::ranges::reverse(row.y);
        std::ranges::reverse(row.ey);
      }
    });
  }

  static void shift(std::span<double> row, double first) {
    if (row.empty()) return;
    std::copy_backward(row.begin(), row.end() - 1, row.end());
    row.front() = first;
  }

  Running running_;
};

}  // namespace

void add_scans(OpList& list) {
  for (const Running& running : {Running{"cumsum", cumsum_row, 0}, Running{"cumprod", cumprod_row, 1},
                                 Running{"cummax", extremum_row<true>, std::nullopt},
                                 Running{"cummin", extremum_row<false>, std::nullopt},
                                 Running{"logcumsumexp", logcumsumexp_row, std::nullopt, true}})
    list.push_back(std::make_unique<Scan>(running));
}

}  // namespace lathe::ops
