#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The outer product of vectors a [M] and b [N]: out[i, j] = a[i] b[j].
class Outer final : public NamedOp {
 public:
  Outer() : NamedOp({"outer", OpClass::kOther, 2, 2}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_numeric(context));
    LATHE_CHECK_OK(check_rank(context, 0, 1));
    LATHE_CHECK_OK(check_rank(context, 1, 1));
    return SymbolicType{context.in[0].dtype, {context.in[0].shape[0], context.in[1].shape[0]}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const auto columns = static_cast<std::size_t>(site.out[1]);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const double a = in[0]->data[i / columns];
      const double b = in[1]->data[i % columns];
      out.data[i] = a * b;
      if (out.err.empty()) continue;
      const double ea = in[0]->error_at(i / columns);
      const double eb = in[1]->error_at(i % columns);
      out.err[i] = std::fabs(a) * eb + std::fabs(b) * ea + ea * eb + rounding(numerics, out.data[i]);
    }
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    if (any_constant(demand)) return 0;
    return spread_over(demand.wanted, element_count(site.out), element_count(site.in[demand.input]));
  }
};

}  // namespace

void add_outer(OpList& list) { list.push_back(std::make_unique<Outer>()); }

}  // namespace lathe::ops
