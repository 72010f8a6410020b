#include "task/ops/factories.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The mean over rows of -log softmax(logits)[target]: logits [N, C], target [N] of integers in [0,
/// C). `label_smoothing` takes that share of the target's weight and spreads it over all classes.
class CrossEntropy final : public NamedOp {
 public:
  CrossEntropy() : NamedOp({"cross_entropy", OpClass::kLoss, 2, 2, {{"label_smoothing", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& logits = context.in[0];
    if (!info(logits.dtype).is_float) return invalid("needs floating-point logits, got " + describe(logits));
    LATHE_CHECK_OK(check_index(context, 1));
    const double share = context.attrs.real("label_smoothing", 0);
    if (!(share >= 0 && share <= 1)) return invalid("attribute 'label_smoothing' must be from 0 to 1");
    LATHE_CHECK_OK(check_rank(context, 0, 2));
    LATHE_CHECK_OK(check_shape(context, 1, {logits.shape[0]}, "a class for each row of input 1"));
    return SymbolicType{logits.dtype, {}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    average(site, in, numerics, {.smoothing = site.attrs.real("label_smoothing", 0)}, out);
  }

  double flops(const OpSite& site) const override {
    return 4 * static_cast<double>(element_count(site.in[0]));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"next_class",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               average(site, in, Numerics{.unit_roundoff = 0},
                       {.smoothing = site.attrs.real("label_smoothing", 0), .shift = 1}, out);
             }},
            {"not_smoothed", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (site.attrs.real("label_smoothing", 0) == 0) return out.data.clear();
               average(site, in, Numerics{.unit_roundoff = 0}, {}, out);
             }}};
  }

 private:
  struct Targets {
    double smoothing = 0;
    std::size_t shift = 0;  ///< of the class
  };

  static void average(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                      const Targets& targets, Value& out) {
    prepare(site.out, needs_error(in.first(1), numerics), out);
    const Value& logits = *in[0];
    const auto classes = static_cast<std::size_t>(site.in[0][1]);
    double total = 0;
    SumBound bound;
    for (std::size_t row = 0; row < in[1]->data.size(); ++row) {
      const std::size_t first = row * classes;
      const std::size_t errors = logits.err.empty() ? 0 : classes;
      const ExpSum sum = sum_of_exp({logits.data.data() + first, classes},
                                    {logits.err.data() + (errors != 0 ? first : 0), errors}, numerics, {});
      const double wanted = std::clamp(in[1]->data[row], 0.0, static_cast<double>(classes - 1));
      const std::size_t target = first + (static_cast<std::size_t>(wanted) + targets.shift) % classes;
      const double log_sum = sum.top + std::log(sum.sum), kept = 1 - targets.smoothing;
      const Smoothed spread = smoothed(logits, first, classes, targets.smoothing, log_sum, numerics);
      const double loss = kept * (log_sum - logits.data[target]) + spread.value;
      total += loss;
      bound.add(loss, kept * logits.error_at(target) + logsumexp_error(sum, numerics) +
                          rounding(numerics, loss) +
                          numerics.unit_roundoff * std::fabs(logits.data[target] - sum.top) + spread.error);
    }
    const auto rows = static_cast<double>(in[1]->data.size());
    out.data[0] = total / rows;
    if (!out.err.empty()) out.err[0] = bound.total(numerics) / rows + 2 * rounding(numerics, out.data[0]);
  }

  /// What the classes add that share `share` of the weight.
  struct Smoothed {
    double value;
    double error;
  };
  static Smoothed smoothed(const Value& logits, std::size_t first, std::size_t classes, double share,
                           double log_sum, const Numerics& numerics) {
    if (share == 0) return {0, 0};
    double total = 0;
    SumBound bound;
    for (std::size_t i = first; i < first + classes; ++i) {
      total += log_sum - logits.data[i];
      const double parts = std::fabs(log_sum) + std::fabs(logits.data[i]);
      bound.add(parts, logits.error_at(i) + 2 * numerics.unit_roundoff * parts);
    }
    const double weight = share / static_cast<double>(classes);
    return {weight * total, weight * bound.total(numerics) + 4 * rounding(numerics, weight * total)};
  }
};

/// The mean over rows of -log_p[target]: log-probabilities [N, C], target [N] of integers in [0,
/// C).
class NegativeLogLikelihood final : public NamedOp {
 public:
  NegativeLogLikelihood() : NamedOp({"nll_loss", OpClass::kLoss, 2, 2}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    if (!info(x.dtype).is_float) return invalid("needs floating-point log-probabilities, got " + describe(x));
    LATHE_CHECK_OK(check_index(context, 1));
    LATHE_CHECK_OK(check_rank(context, 0, 2));
    LATHE_CHECK_OK(check_shape(context, 1, {x.shape[0]}, "a class for each row of input 1"));
    return SymbolicType{x.dtype, {}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    average(site, in, numerics, 0, out);
  }

  double flops(const OpSite& site) const override { return static_cast<double>(site.in[0][0]); }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    if (any_constant(demand) || demand.wanted < 1) return 0;
    return demand.input == 1 && site.in[0][1] < 2 ? 0 : site.in[0][0];
  }

  std::vector<OpMutant> mutants() const override {
    return {{"next_class", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (site.in[0][1] > 1) average(site, in, Numerics{.unit_roundoff = 0}, 1, out);
             }}};
  }

 private:
  static void average(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                      std::size_t shift, Value& out) {
    prepare(site.out, needs_error(in.first(1), numerics), out);
    const auto classes = static_cast<std::size_t>(site.in[0][1]);
    double total = 0;
    SumBound bound;
    for (std::size_t row = 0; row < in[1]->data.size(); ++row) {
      const double wanted = std::clamp(in[1]->data[row], 0.0, static_cast<double>(classes - 1));
      const std::size_t at = row * classes + (static_cast<std::size_t>(wanted) + shift) % classes;
      total -= in[0]->data[at];
      bound.add(in[0]->data[at], in[0]->error_at(at));
    }
    const auto rows = static_cast<double>(in[1]->data.size());
    out.data[0] = total / rows;
    if (!out.err.empty()) out.err[0] = bound.total(numerics) / rows + 2 * rounding(numerics, out.data[0]);
  }
};

}  // namespace

void add_cross_entropy(OpList& list) {
  list.push_back(std::make_unique<CrossEntropy>());
  list.push_back(std::make_unique<NegativeLogLikelihood>());
}

}  // namespace lathe::ops
