#include "task/ops/factories.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// What a wrong kernel does.
enum class Mistake { kNone, kNoCarry, kLateFactor, kOtherDirection };

/// y[t] = a[t] y[t - 1] + b[t] along `axis` (default: the last), from its end if `reverse`; y is 0
/// before the first. A first-order linear recurrence: the state of a selective scan.
class LinearScan final : public NamedOp {
 public:
  LinearScan()
      : NamedOp({"linear_scan",
                 OpClass::kScan,
                 2,
                 2,
                 {{"axis", AttrKind::kInteger}, {"reverse", AttrKind::kFlag}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    LATHE_CHECK_OK(check_shape(context, 1, context.in[0].shape, "the shape of input 1"));
    return context.in[0];
  }

  /// A factor beyond 1 would make long lines overflow.
  std::optional<ValueRange> takes(std::size_t input, DType) const override {
    if (input != 0) return std::nullopt;
    return ValueRange{-1, 1};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    run(site, in, numerics, Mistake::kNone, out);
  }

  double flops(const OpSite& site) const override { return 2 * static_cast<double>(element_count(site.out)); }

  /// Nothing is multiplied by a line's first factor.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const auto firsts = demand.input == 0 ? static_cast<std::int64_t>(lines_of(site).count) : 0;
    return std::max<std::int64_t>(0, NamedOp::needs(site, demand) - firsts);
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [](Mistake mistake) {
      return [mistake](const OpSite& site, std::span<const Value* const> in, Value& out) {
        run(site, in, Numerics{.unit_roundoff = 0}, mistake, out);
      };
    };
    return {{"no_carry", with(Mistake::kNoCarry)},
            {"late_factor", with(Mistake::kLateFactor)},
            {"other_direction", with(Mistake::kOtherDirection)}};
  }

 private:
  /// Kernels may multiply factors of neighbours first, so that every term is a product of as many
  /// factors as it has passed, and sum the terms in any grouping.
  static void run(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                  Mistake mistake, Value& out) {
    const Value &a = *in[0], &b = *in[1];
    prepare(site.out, needs_error(in, numerics), out);
    const Lines lines = lines_of(site);
    const bool reverse = site.attrs.flag("reverse", false) != (mistake == Mistake::kOtherDirection);
    const double carried = mistake == Mistake::kNoCarry ? 0 : 1;
    for (std::size_t line = 0; line < lines.count; ++line) {
      double y = 0, magnitude = 0, propagated = 0, terms = 0;
      std::size_t before = lines.start(line);
      for (std::size_t k = 0; k < lines.length; ++k) {
        const std::size_t i = reverse ? lines.length - 1 - k : k;
        const std::size_t at = lines.start(line) + i * lines.stride;
        const std::size_t factor_at = mistake == Mistake::kLateFactor && k > 0 ? before : at;
        const double factor = carried * a.data[factor_at], size = std::fabs(factor);
        const double factor_error = a.error_at(factor_at);
        propagated = (size + factor_error) * propagated + std::fabs(y) * factor_error + b.error_at(at);
        y = factor * y + b.data[at];
        magnitude = size * magnitude + std::fabs(b.data[at]);
        if (!numerics.sparse_sums || may_round(b.data[at], b.error_at(at))) terms += 1;
        before = at;
        out.data[at] = y;
        if (!out.err.empty()) out.err[at] = propagated + 2 * sum_error(numerics, terms, magnitude);
      }
    }
    out.terms = static_cast<double>(lines.length);
  }
};

}  // namespace

void add_linear_scan(OpList& list) { list.push_back(std::make_unique<LinearScan>()); }

}  // namespace lathe::ops
