#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

struct Distance {
  double value;
  double error;
};

/// The mean over rows of max(0, |a - p| - |a - n| + margin) for anchors, positive and negative
/// examples [N, D]; as in PyTorch, eps is added to each difference.
class TripletMargin final : public NamedOp {
 public:
  TripletMargin()
      : NamedOp({"triplet_margin_loss",
                 OpClass::kLoss,
                 3,
                 3,
                 {{"margin", AttrKind::kReal}, {"eps", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, 2));
    for (const std::size_t input : {1, 2})
      LATHE_CHECK_OK(check_shape(context, input, context.in[0].shape, "that of input 1"));
    return SymbolicType{context.in[0].dtype, {}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    average(site, in, numerics, 0, out);
  }

  double flops(const OpSite& site) const override {
    return 8 * static_cast<double>(element_count(site.in[0]));
  }

  /// Of a negative example no more than shows that it is far enough.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return demand.input == 2 ? 0 : NamedOp::needs(site, demand);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"skipped_tail",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const auto width = static_cast<std::size_t>(site.in[0][1]);
               if (width > 1)
                 average(site, in, Numerics{.unit_roundoff = 0}, std::max<std::size_t>(1, width / 8), out);
             }},
            {"swapped_examples", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value* const swapped[] = {in[0], in[2], in[1]};
               average(site, swapped, Numerics{.unit_roundoff = 0}, 0, out);
             }}};
  }

 private:
  static void average(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                      std::size_t skipped, Value& out) {
    prepare(site.out, needs_error(in, numerics), out);
    const double margin = site.attrs.real("margin", 1), eps = site.attrs.real("eps", 1e-6);
    const auto rows = static_cast<std::size_t>(site.in[0][0]),
               width = static_cast<std::size_t>(site.in[0][1]);
    double total = 0;
    SumBound bound;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto distance = [&](const Value& other) {
        return distance_of(*in[0], other, row * width, width - skipped, eps, numerics);
      };
      const Distance near = distance(*in[1]), far = distance(*in[2]);
      const double loss = std::max(0.0, near.value - far.value + margin);
      const double roundings = 2 * numerics.unit_roundoff * (near.value + far.value + std::fabs(margin));
      total += loss;
      bound.add(loss, near.error + far.error + roundings);
    }
    out.data[0] = total / static_cast<double>(rows);
    if (!out.err.empty())
      out.err[0] = bound.total(numerics) / static_cast<double>(rows) + 2 * rounding(numerics, out.data[0]);
  }

  static Distance distance_of(const Value& a, const Value& b, std::size_t first, std::size_t width,
                              double eps, const Numerics& numerics) {
    double squares = 0;
    SumBound bound;
    for (std::size_t i = first; i < first + width; ++i) {
      const double apart = a.data[i] - b.data[i], shifted = apart + eps;
      const double e =
          a.error_at(i) + b.error_at(i) + numerics.unit_roundoff * (std::fabs(apart) + std::fabs(shifted));
      squares += shifted * shifted;
      bound.add(shifted * shifted, (2 * std::fabs(shifted) + e) * e);
    }
    const double value = std::sqrt(squares);
    return {value, sqrt_error(squares, bound.total(numerics)) + kRefined * rounding(numerics, value)};
  }
};

}  // namespace

void add_triplet_margin(OpList& list) { list.push_back(std::make_unique<TripletMargin>()); }

}  // namespace lathe::ops
