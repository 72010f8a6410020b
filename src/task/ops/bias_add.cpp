#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"

namespace lathe::ops {
namespace {

/// out = x + bias, bias a vector along one axis of x: the last, or `axis`.
class BiasAdd final : public NamedOp {
 public:
  BiasAdd() : NamedOp({"bias_add", OpClass::kElementwise, 2, 2, {{"axis", AttrKind::kInteger}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 1, 1));
    const SymbolicType& x = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, x.shape.size()));
    LATHE_CHECK_OK(
        check_shape(context, 1, {x.shape[axis]}, "as axis " + std::to_string(axis) + " of input 1"));
    return x;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const Value& x = *in[0];
    const Value& bias = *in[1];
    out.terms = x.terms + bias.terms;
    const Lines lines = lines_along(site.out, wrap_axis(site.attrs.integer("axis", -1), site.out.size()));
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const std::size_t channel = i / lines.stride % lines.length;
      out.data[i] = x.data[i] + bias.data[channel];
      if (out.err.empty()) continue;
      out.err[i] = x.error_at(i) + bias.error_at(channel) + rounding(numerics, out.data[i]) +
                   start_error(numerics, x.terms, bias.data[channel]) +
                   start_error(numerics, bias.terms, x.data[i]);
    }
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               out.shape = site.out;
               out.data = in[0]->data;
             }}};
  }

  std::optional<std::int64_t> channel_axis(const Attrs& attrs) const override {
    return attrs.integer("axis", -1);
  }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return operands[0] + " + " + operands[1];
  }
};

}  // namespace

void add_bias_add(OpList& list) { list.push_back(std::make_unique<BiasAdd>()); }

}  // namespace lathe::ops
