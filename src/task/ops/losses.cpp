#include <algorithm>
#include <cmath>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/reduce.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The operands of one term, a from the first input and b from the second, with their errors.
struct Pair {
  double a, b, ea, eb;
};

/// A loss that averages a term over all elements of two tensors of equal shape. The term's own
/// error is in units of u; the propagated error is absolute.
struct Loss {
  struct Term {
    double value;
    double carried;
    double own;
  };
  std::string_view name;
  double flops_per_element;
  Term (*term)(const Pair& pair, double parameter);
  std::string_view parameter = {};
  bool per_row = false;  ///< divides by the first extent alone
};

Loss::Term squared(const Pair& p, double) {
  const double d = std::fabs(p.a - p.b);
  const double e = p.ea + p.eb;
  return {d * d, (2 * d + e) * e, 3 * d * d};
}

Loss::Term absolute(const Pair& p, double) {
  return {std::fabs(p.a - p.b), p.ea + p.eb, std::fabs(p.a - p.b)};
}

/// d^2 / 2 up to delta, delta (|d| - delta / 2) beyond.
Loss::Term huber(const Pair& p, double delta) {
  const double d = std::fabs(p.a - p.b);
  const double value = d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
  const double e = p.ea + p.eb;
  return {value, std::min(d + e, delta) * e, 4 * std::min(d, delta) * d};
}

/// d^2 / (2 beta) up to beta, |d| - beta / 2 beyond.
Loss::Term smooth_l1(const Pair& p, double beta) {
  const Loss::Term term = huber(p, beta);
  return {term.value / beta, term.carried / beta, 6 * term.own / (4 * beta)};
}

/// max(0, 1 - a b) for targets b of -1 and 1.
Loss::Term hinge(const Pair& p, double) {
  const double product = p.a * p.b;
  const double carried = std::fabs(p.a) * p.eb + std::fabs(p.b) * p.ea + p.ea * p.eb;
  return {std::max(0.0, 1 - product), carried, std::fabs(product) + std::fabs(1 - product)};
}

/// -b log s(a) - (1 - b) log(1 - s(a)) as max(a, 0) - a b + log(1 + exp(-|a|)).
Loss::Term logistic(const Pair& p, double) {
  const double tail = std::log1p(std::exp(-std::fabs(p.a)));
  const double value = std::max(p.a, 0.0) - p.a * p.b + tail;
  const double slope = std::fabs(1 / (1 + std::exp(-p.a)) - p.b);
  const double own =
      2 * std::fabs(p.a) * (1 + std::fabs(p.b)) + kTranscendental * tail + 2 + std::fabs(value);
  const double steepest = std::max(std::fabs(p.b), std::fabs(1 - p.b));
  const double of_a = std::min(slope + p.ea / 8, steepest) * p.ea;  // the slope's own is at most 1/4
  return {value, of_a + (std::fabs(p.a) + p.ea) * p.eb, own};
}

/// exp(a) - a b for logarithms a of rates and counts b.
Loss::Term poisson(const Pair& p, double) {
  const double rate = std::exp(p.a), product = p.a * p.b;
  const double carried =
      rate * std::expm1(p.ea) + std::fabs(p.b) * p.ea + std::fabs(p.a) * p.eb + p.ea * p.eb;
  const double own = rate * (kTranscendental + kScaledArgument * std::fabs(p.a)) + std::fabs(product) +
                     std::fabs(rate - product);
  return {rate - product, carried, own};
}

/// log(1 + exp(-a b)) for targets b of -1 and 1, as max(-a b, 0) + log(1 + exp(-|a b|)).
Loss::Term soft_margin(const Pair& p, double) {
  const double product = p.a * p.b, e = std::exp(-std::fabs(product)), tail = std::log1p(e);
  const double value = std::max(-product, 0.0) + tail, slope = product < 0 ? 1 / (1 + e) : e / (1 + e);
  const double carried = std::fabs(p.a) * p.eb + std::fabs(p.b) * p.ea + p.ea * p.eb;
  const double own = slope * (2 + kScaledArgument) * std::fabs(product) + 2 * kTranscendental * tail + value;
  return {value, carried, own};
}

/// b (log b - a), 0 where b is.
double divergence_at(double a, double b) { return b > 0 ? b * (std::log(b) - a) : 0; }

/// How far errors take it: it is linear in a, and falls with b until log b is a - 1.
double divergence_moved(const Pair& p) {
  const double here = divergence_at(p.a, p.b);
  double most = 0;
  for (const double a : {p.a - p.ea, p.a + p.ea})
    for (const double b : {p.b - p.eb, p.b + p.eb, std::clamp(std::exp(a - 1), p.b - p.eb, p.b + p.eb)})
      most = std::max(most, std::fabs(divergence_at(a, b) - here));
  return most;
}

/// Input 1 holds log-probabilities, input 2 probabilities.
Loss::Term divergence(const Pair& p, double) {
  if (p.b <= 0) return {0, std::max(p.eb, divergence_moved(p)), 0};
  const double logarithm = std::log(p.b);
  const double gap = logarithm - p.a;
  const double own = p.b * (kTranscendental * std::fabs(logarithm) + 1 + 2 * std::fabs(gap) + std::fabs(p.a));
  const double linear = p.b * p.ea + (std::fabs(gap) + 1) * p.eb;
  const bool small = std::max(p.ea, p.eb) <= 0x1p-14 * std::min(1.0, p.b);
  return {p.b * gap, small ? linear : std::max(linear, divergence_moved(p)), own};
}

class MeanLoss final : public NamedOp {
 public:
  explicit MeanLoss(const Loss& loss)
      : NamedOp({loss.name, OpClass::kLoss, 2, 2, rules(loss)}), loss_(loss) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_shape(context, 1, context.in[0].shape, "that of input 1"));
    if (!loss_.parameter.empty() && context.attrs.real(loss_.parameter, 1) <= 0) {
      return invalid("attribute '" + std::string(loss_.parameter) + "' must be positive");
    }
    return SymbolicType{context.in[0].dtype, {}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    average(site, in, numerics, in[0]->data.size(), out);
  }

  double flops(const OpSite& site) const override {
    return loss_.flops_per_element * static_cast<double>(element_count(site.in[0]));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"skipped_tail", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t count = in[0]->data.size();
               average(site, in, Numerics{.unit_roundoff = 0}, count - std::max<std::size_t>(1, count / 8),
                       out);
             }}};
  }

 private:
  static std::vector<AttrRule> rules(const Loss& loss) {
    if (loss.parameter.empty()) return {};
    return {{loss.parameter, AttrKind::kReal}};
  }

  void average(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
               std::size_t count, Value& out) const {
    prepare(site.out, needs_error(in, numerics), out);
    const double parameter = loss_.parameter.empty() ? 0 : site.attrs.real(loss_.parameter, 1);
    double total = 0;
    SumBound bound;
    for (std::size_t i = 0; i < count; ++i) {
      const Pair pair{in[0]->data[i], in[1]->data[i], in[0]->error_at(i), in[1]->error_at(i)};
      const Loss::Term term = loss_.term(pair, parameter);
      total += term.value;
      bound.add(term.value, term.carried + numerics.unit_roundoff * term.own);
    }
    const std::int64_t terms =
        loss_.per_row && !site.in[0].empty() ? site.in[0][0] : element_count(site.in[0]);
    const auto divisor = static_cast<double>(terms);
    out.data[0] = total / divisor;
    if (!out.err.empty()) out.err[0] = bound.total(numerics) / divisor + 2 * rounding(numerics, out.data[0]);
  }

  Loss loss_;
};

}  // namespace

void add_losses(OpList& list) {
  list.push_back(std::make_unique<MeanLoss>(Loss{"mse_loss", 3, squared}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"l1_loss", 3, absolute}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"huber_loss", 5, huber, "delta"}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"smooth_l1_loss", 5, smooth_l1, "beta"}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"hinge_loss", 4, hinge}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"bce_with_logits", 7, logistic}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"poisson_nll_loss", 3, poisson}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"soft_margin_loss", 4, soft_margin}));
  list.push_back(std::make_unique<MeanLoss>(Loss{"kl_div", 4, divergence, {}, true}));
}

}  // namespace lathe::ops
