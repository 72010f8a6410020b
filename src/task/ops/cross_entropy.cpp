#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The mean over rows of -log softmax(logits)[target]: logits [N, C], target [N] of integers in [0,
/// C).
class CrossEntropy final : public NamedOp {
 public:
  CrossEntropy() : NamedOp({"cross_entropy", OpClass::kLoss, 2, 2}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& logits = context.in[0];
    const DType index = context.in[1].dtype;
    if (!info(logits.dtype).is_float) return invalid("needs floating-point logits, got " + describe(logits));
    if (index != DType::kI32 && index != DType::kI64) {
      return invalid("input 2 must be int32 or int64, got " + describe(context.in[1]));
    }
    LATHE_CHECK_OK(check_rank(context, 0, 2));
    LATHE_CHECK_OK(check_shape(context, 1, {logits.shape[0]}, "a class for each row of input 1"));
    return SymbolicType{logits.dtype, {}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    average(site, in, numerics, 0, out);
  }

  double flops(const OpSite& site) const override {
    return 4 * static_cast<double>(element_count(site.in[0]));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"next_class", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               average(site, in, Numerics{.unit_roundoff = 0}, 1, out);
             }}};
  }

 private:
  static void average(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                      std::size_t shift, Value& out) {
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
      const std::size_t target = first + (static_cast<std::size_t>(wanted) + shift) % classes;
      const double loss = sum.top + std::log(sum.sum) - logits.data[target];
      total += loss;
      bound.add(loss, logits.error_at(target) + logsumexp_error(sum, numerics) + rounding(numerics, loss) +
                          numerics.unit_roundoff * std::fabs(logits.data[target] - sum.top));
    }
    const auto rows = static_cast<double>(in[1]->data.size());
    out.data[0] = total / rows;
    if (!out.err.empty()) out.err[0] = bound.total(numerics) / rows + 2 * rounding(numerics, out.data[0]);
  }
};

}  // namespace

void add_cross_entropy(OpList& list) { list.push_back(std::make_unique<CrossEntropy>()); }

}  // namespace lathe::ops
