#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/jumps.h"

namespace lathe::ops {
namespace {

/// A comparison of two numbers; `mistake` is one that differs for equal numbers alone, or takes
/// neighbours for equal.
struct Order {
  std::string_view name;
  bool (*holds)(double a, double b);
  bool (*mistake)(double a, double b);
};

constexpr Order kOrders[] = {
    {"lt", [](double a, double b) { return a < b; }, [](double a, double b) { return a <= b; }},
    {"le", [](double a, double b) { return a <= b; }, [](double a, double b) { return a < b; }},
    {"gt", [](double a, double b) { return a > b; }, [](double a, double b) { return a >= b; }},
    {"ge", [](double a, double b) { return a >= b; }, [](double a, double b) { return a > b; }},
    {"eq", [](double a, double b) { return a == b; },
     [](double a, double b) { return std::fabs(a - b) <= 0x1p-20 * std::fabs(b); }},
    {"ne", [](double a, double b) { return a != b; },
     [](double a, double b) { return std::fabs(a - b) > 0x1p-20 * std::fabs(b); }},
};

/// a compared with b, or with the constant `value`: a mask. Where the two are so near that their
/// errors decide, either answer is right; so it is between a constant and its nearest fp32, which a
/// kernel may compare with.
class Comparison final : public NamedOp {
 public:
  explicit Comparison(const Order& order)
      : NamedOp({order.name, OpClass::kElementwise, 1, 2, {{"value", AttrKind::kReal}}}), order_(order) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& a = context.in[0];
    const bool constant = context.attrs.has("value");
    if (constant == (context.in.size() == 2)) {
      return invalid("compares input 1 with input 2 or with the attribute 'value'",
                     constant ? "drop one of them" : "give one of them");
    }
    if (constant) {
      LATHE_CHECK_OK(check_constant(context.attrs.real("value", 0), a.dtype));
      return SymbolicType{DType::kBool, a.shape};
    }
    const SymbolicType& b = context.in[1];
    if (a.dtype != b.dtype) {
      return invalid("inputs 1 and 2 have different dtypes: " + describe(a) + " and " + describe(b),
                     "convert one of them with the op 'cast'");
    }
    LATHE_TRY(auto shape, broadcast(context, a.shape, b.shape));
    return SymbolicType{DType::kBool, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const double value = site.attrs.real("value", 0);
    const double rounded = static_cast<double>(static_cast<float>(value));
    const Value constant{{}, {value}, {std::fabs(value - rounded)}};
    const Value* const both[] = {in[0], in.size() > 1 ? in[1] : &constant};
    const Shape shape = in.size() > 1 ? site.in[1] : Shape{};
    const auto holds = numerics.textbook ? order_.mistake : order_.holds;
    prepare(site.out, needs_error(both, Numerics{.unit_roundoff = 0}), out);
    for_each_row<2>(site.out, {site.in[0], shape}, [&](const BroadcastRow<2>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        const std::size_t ia = row.in[0] + i * row.step[0], ib = row.in[1] + i * row.step[1];
        const double a = both[0]->data[ia], b = both[1]->data[ib];
        out.data[row.out + i] = holds(a, b) ? 1 : 0;
        if (out.err.empty()) continue;
        const double reach =
            reach_to_jump(a, both[0]->error_at(ia)) + reach_to_jump(b, both[1]->error_at(ib));
        out.err[row.out + i] = reach > 0 && std::fabs(a - b) <= reach ? 1 : 0;
      }
    });
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    const std::string other = attrs.has("value") ? float_literal(attrs.real("value", 0)) : operands[1];
    return "lathe::select(lathe::" + std::string(order_.name) + "(" + operands[0] + ", " + other +
           "), 1.0f, 0.0f)";
  }

  std::vector<double> telling(const Attrs& attrs, std::size_t, DType dtype) const override {
    std::vector<double> values = {0.0, -0.0};
    add_threshold(attrs.real("value", 1), dtype, values);
    return values;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"negated", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               evaluate(site, in, Numerics{.unit_roundoff = 0}, out);
               for (double& x : out.data) x = 1 - x;
             }}};
  }

 private:
  /// Kernels may compare in fp32, where whole numbers beyond 2^24 are rounded, but not across one
  /// that is not.
  static Status check_constant(double value, DType dtype) {
    if (info(dtype).is_float || (std::fabs(value) < 0x1p24 && value == std::floor(value))) return Ok{};
    return invalid("attribute 'value' must be a whole number below 2^24 for " + std::string(info(dtype).name),
                   "compare with a tensor");
  }

  Order order_;
};

/// What a mask, or a number that is not 0, says, and whether its error leaves that open.
struct Truth {
  bool holds;
  bool open;

  static Truth of(const Value& value, std::size_t i) {
    const double x = value.data[i], reach = reach_to_jump(x, value.error_at(i));
    return {x != 0, reach > 0 && std::fabs(x) <= reach};
  }
};

/// "and" and "or" of two masks of any dtypes; the result is a mask.
class Connective final : public NamedOp {
 public:
  Connective(std::string_view name, bool both) : NamedOp({name, OpClass::kElementwise, 2, 2}), both_(both) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY(auto shape, broadcast(context, context.in[0].shape, context.in[1].shape));
    return SymbolicType{DType::kBool, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare(site.out, needs_error(in, Numerics{.unit_roundoff = 0}), out);
    for_each_row<2>(site.out, {site.in[0], site.in[1]}, [&](const BroadcastRow<2>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        const Truth a = Truth::of(*in[0], row.in[0] + i * row.step[0]);
        const Truth b = Truth::of(*in[1], row.in[1] + i * row.step[1]);
        out.data[row.out + i] = (both_ ? a.holds && b.holds : a.holds || b.holds) ? 1 : 0;
        if (out.err.empty()) continue;
        const bool a_decides = b.open || b.holds == both_, b_decides = a.open || a.holds == both_;
        out.err[row.out + i] = (a.open && a_decides) || (b.open && b_decides) ? 1 : 0;
      }
    });
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  /// One operand may say enough.
  std::int64_t needs(const OpSite&, const Demand&) const override { return 0; }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] + in[1] > 0 ? element_count(site.out) : 0;
  }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return "lathe::select(lathe::ne(" + operands[0] + ", 0.0f) " + (both_ ? "&" : "|") + " lathe::ne(" +
           operands[1] + ", 0.0f), 1.0f, 0.0f)";
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType) const override { return {0.0, -0.0, 1.0}; }

  std::vector<OpMutant> mutants() const override {
    return {{"other_connective", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               Connective(name(), !both_).evaluate(site, in, Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  bool both_;
};

class Not final : public NamedOp {
 public:
  Not() : NamedOp({"logical_not", OpClass::kElementwise, 1, 1}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    return SymbolicType{DType::kBool, context.in[0].shape};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare(site.out, needs_error(in, Numerics{.unit_roundoff = 0}), out);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const Truth x = Truth::of(*in[0], i);
      out.data[i] = x.holds ? 0 : 1;
      if (!out.err.empty()) out.err[i] = x.open ? 1 : 0;
    }
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return "lathe::select(lathe::eq(" + operands[0] + ", 0.0f), 1.0f, 0.0f)";
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType) const override { return {0.0, -0.0, 1.0}; }

  std::vector<OpMutant> mutants() const override {
    return {{"not_negated", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               out.shape = site.out;
               out.data = in[0]->data;
               for (double& x : out.data) x = x != 0 ? 1 : 0;
             }}};
  }
};

}  // namespace

void add_comparisons(OpList& list) {
  for (const Order& order : kOrders) list.push_back(std::make_unique<Comparison>(order));
  list.push_back(std::make_unique<Connective>("logical_and", true));
  list.push_back(std::make_unique<Connective>("logical_or", false));
  list.push_back(std::make_unique<Not>());
}

}  // namespace lathe::ops
