#include <cmath>
#include <limits>

#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/rowwise.h"

namespace lathe::ops {
namespace {

/// A channel's factor gamma / sqrt(var + eps), with its error.
struct Factor {
  double value;
  double error;
};

Factor factor_of(std::span<const Value* const> in, std::size_t channel, double eps,
                 const Numerics& numerics) {
  const double gamma = in[1]->data[channel];
  const double spread = in[4]->data[channel] + eps;
  const double relative =
      rsqrt_relative_error(spread, in[4]->error_at(channel) + rounding(numerics, spread), numerics);
  const double inverse = 1 / std::sqrt(spread);
  const double value = gamma * inverse;
  return {value, std::fabs(value) * relative + inverse * (1 + relative) * in[1]->error_at(channel) +
                     rounding(numerics, value)};
}

/// Inference: (x - mean) / sqrt(var + eps) * gamma + beta with inputs x, gamma, beta, mean, var;
/// all but x are vectors over axis 1.
class BatchNorm final : public NamedOp {
 public:
  BatchNorm() : NamedOp({"batch_norm", OpClass::kElementwise, 5, 5, {{"eps", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    const SymbolicType& x = context.in[0];
    if (x.shape.size() < 2) return invalid("input 1 must have rank 2 or more, got " + describe(x));
    for (std::size_t i = 1; i < 5; ++i) {
      LATHE_CHECK_OK(check_shape(context, i, {x.shape[1]}, "the channels of input 1"));
    }
    return x;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const double eps = site.attrs.real("eps", 1e-5);
    const Lines lines = lines_along(site.out, 1);
    std::vector<Factor> factors;
    for (std::size_t c = 0; c < lines.length; ++c) factors.push_back(factor_of(in, c, eps, numerics));
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const std::size_t c = i / lines.stride % lines.length;
      const double deviation = in[0]->data[i] - in[3]->data[c];
      out.data[i] = deviation * factors[c].value + in[2]->data[c];
      if (!out.err.empty()) out.err[i] = error_of(in, i, c, factors[c], numerics);
    }
  }

  double flops(const OpSite& site) const override { return 2 * static_cast<double>(element_count(site.out)); }

  std::optional<std::int64_t> channel_axis(const Attrs&) const override { return 1; }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    return "(" + operands[0] + " - " + operands[3] + ") * (" + operands[1] + " * lathe::rsqrt(" +
           operands[4] + " + " + float_literal(attrs.real("eps", 1e-5)) + ")) + " + operands[2];
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value zero{in[2]->shape, std::vector<double>(in[2]->data.size()), {}};
               const Value* const without[] = {in[0], in[1], &zero, in[3], in[4]};
               evaluate(site, without, Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  /// Covers kernels that fold the mean into the shift, x f + (beta - mean f), and start the sum
  /// that produces x from it.
  static double error_of(std::span<const Value* const> in, std::size_t i, std::size_t c, const Factor& factor,
                         const Numerics& numerics) {
    const double u = numerics.unit_roundoff;
    const double x = in[0]->data[i];
    const double mean = in[3]->data[c];
    const double f = std::fabs(factor.value);
    const double carried = (f + factor.error) * (in[0]->error_at(i) + in[3]->error_at(c)) +
                           std::fabs(x - mean) * factor.error + in[2]->error_at(c);
    const double own = u * (2 * f * std::fabs(x) + 3 * f * std::fabs(mean) + 2 * std::fabs(in[2]->data[c]));
    const double shift = start_error(numerics, in[0]->terms, std::fabs(in[2]->data[c]) + f * std::fabs(mean));
    const double error = carried + own + shift + (u > 0 ? 3 * numerics.underflow : 0);
    return std::isnan(error) ? std::numeric_limits<double>::infinity()
                             : error;  // zero times an endless factor
  }
};

}  // namespace

void add_batch_norm(OpList& list) { list.push_back(std::make_unique<BatchNorm>()); }

}  // namespace lathe::ops
