#include <limits>

#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"

namespace lathe::ops {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// min(max(x, low), high). A bound is a tensor that broadcasts (input 2 is the lower, input 3 the
/// upper one) or an attribute, which costs one rounding where it is no fp32 value.
class Clamp final : public NamedOp {
 public:
  /// `limit` bounds what has no other bound.
  Clamp(std::string_view name, int most_inputs, double limit)
      : NamedOp({name,
                 OpClass::kElementwise,
                 1,
                 most_inputs,
                 {{"low", AttrKind::kReal}, {"high", AttrKind::kReal}}}),
        limit_(limit) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    std::vector<Expr> shape = context.in[0].shape;
    for (std::size_t i = 1; i < context.in.size(); ++i) {
      const char* const attribute = i == 1 ? "low" : "high";
      if (context.attrs.has(attribute))
        return invalid("the bound '" + std::string(attribute) + "' is given twice",
                       "drop the attribute or input " + std::to_string(i + 1));
      LATHE_TRY(shape, broadcast(context, shape, context.in[i].shape));
    }
    return SymbolicType{context.in[0].dtype, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const Value low = bound(low_of(site.attrs), numerics), high = bound(high_of(site.attrs), numerics);
    const Value& below = in.size() > 1 ? *in[1] : low;
    const Value& above = in.size() > 2 ? *in[2] : high;
    const std::array<Shape, 3> shapes = {site.in[0], in.size() > 1 ? site.in[1] : Shape{},
                                         in.size() > 2 ? site.in[2] : Shape{}};
    const double floor = numerics.unit_roundoff > 0 ? numerics.underflow : 0;
    for_each_row<3>(site.out, shapes, [&](const BroadcastRow<3>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        const std::size_t ix = row.in[0] + i * row.step[0], il = row.in[1] + i * row.step[1],
                          ih = row.in[2] + i * row.step[2];
        const double x = in[0]->data[ix], l = below.data[il], h = above.data[ih];
        const double raised = x < l ? l : x;
        out.data[row.out + i] = raised > h ? h : raised;
        if (out.err.empty()) continue;
        const double ex = in[0]->error_at(ix), el = below.error_at(il), eh = above.error_at(ih);
        const double own = std::isinf(out.data[row.out + i]) ? 0 : floor;
        out.err[row.out + i] = own + error(x, l, h, ex, el, eh);
      }
    });
  }

  double flops(const OpSite& site) const override { return 2 * static_cast<double>(element_count(site.out)); }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    const double low = low_of(attrs), high = high_of(attrs);
    std::string text = operands[0];
    if (has_input(operands, 1))
      text = "lathe::max(" + text + ", " + operands[1] + ")";
    else if (low != -kUnbounded)
      text = "lathe::max(" + text + ", " + float_literal(low) + ")";
    if (has_input(operands, 2)) return "lathe::min(" + text + ", " + operands[2] + ")";
    return high == kUnbounded ? text : "lathe::min(" + text + ", " + float_literal(high) + ")";
  }

 private:
  double low_of(const Attrs& attrs) const { return attrs.real("low", -limit_); }
  double high_of(const Attrs& attrs) const { return attrs.real("high", limit_); }
  bool has_input(std::span<const std::string> operands, std::size_t input) const {
    return operands.size() > input && max_inputs() > static_cast<int>(input);
  }

  static Value bound(double value, const Numerics& numerics) {
    const double rounded = static_cast<double>(static_cast<float>(value));
    const double error = std::isinf(value) || numerics.unit_roundoff == 0 ? 0 : std::fabs(value - rounded);
    return {{}, {value}, {error}};
  }

  /// The largest of the errors of what the result may be.
  static double error(double x, double low, double high, double ex, double el, double eh) {
    const bool may_be_low = x - ex <= low + el, may_be_high = std::max(x + ex, low + el) >= high - eh;
    double most = 0;
    if (x + ex >= low - el && x - ex <= high + eh) most = ex;
    if (may_be_low) most = std::max(most, el);
    if (may_be_high) most = std::max(most, eh);
    return most;
  }

  double limit_;
};

}  // namespace

void add_clamp(OpList& list) {
  list.push_back(std::make_unique<Clamp>("clamp", 3, kUnbounded));
  list.push_back(std::make_unique<Clamp>("hardtanh", 1, 1));
}

}  // namespace lathe::ops
