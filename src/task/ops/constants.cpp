#include <cmath>

#include "task/ops/support/move.h"

namespace lathe::ops {
namespace {

std::vector<AttrRule> with_type(std::vector<AttrRule> rules) {
  rules.push_back({"shape", AttrKind::kIntegers, true});
  rules.push_back(
      {"dtype", AttrKind::kText, false, {"fp64", "fp32", "fp16", "bf16", "int8", "uint8", "int32", "int64"}});
  return rules;
}

Result<SymbolicType> type_given(const InferContext& context) {
  LATHE_TRY(const DType dtype, parse_dtype(context.attrs.text("dtype", "fp32")));
  LATHE_TRY(std::vector<Expr> shape, context.attrs.expressions("shape", {}));
  if (shape.empty()) return invalid("attribute 'shape' has no extent", "a single element has shape = [1]");
  return SymbolicType{dtype, std::move(shape)};
}

/// 0, 1, ... along `axis` (default: the last) of a tensor of its own.
class Iota final : public MoveOp {
 public:
  Iota() : MoveOp({"iota", OpClass::kMove, 0, 0, with_type({{"axis", AttrKind::kInteger}})}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY(SymbolicType result, type_given(context));
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    const DTypeInfo& type = info(result.dtype);
    const double last = std::min(type.is_float ? 1 / type.unit_roundoff : type.largest, 0x1p53);
    const Expr most = Expr::constant(static_cast<std::int64_t>(last) + 1);
    if (!context.same(Expr::apply("<=", result.shape[axis], most), Expr::constant(1)))
      return invalid(std::string(type.name) + " does not hold all positions of an axis of " +
                         result.shape[axis].to_string(),
                     "choose a wider dtype, and cast what is computed from it");
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const>, const Numerics&,
                Value& out) const override {
    fill(site, 0, out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"from_one",
             [](const OpSite& site, std::span<const Value* const>, Value& out) { fill(site, 1, out); }}};
  }

 private:
  static void fill(const OpSite& site, std::size_t first, Value& out) {
    prepare(site.out, false, out);
    const Lines lines = lines_along(site.out, wrap_axis(site.attrs.integer("axis", -1), site.out.size()));
    for (std::size_t i = 0; i < out.data.size(); ++i)
      out.data[i] = static_cast<double>(first + i / lines.stride % lines.length);
  }
};

/// `value`, a number or an expression over dims, as the dtype holds it, everywhere.
class Full final : public MoveOp {
 public:
  Full() : MoveOp({"full", OpClass::kMove, 0, 0, with_type({{"value", AttrKind::kNumber, true}})}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY(SymbolicType result, type_given(context));
    const DTypeInfo& type = info(result.dtype);
    if (std::holds_alternative<std::string>(context.attrs.all().find("value")->second)) {
      LATHE_TRY(const Expr value, context.attrs.expression("value", Expr()));
      const Expr most = Expr::constant(static_cast<std::int64_t>(std::min(type.largest, 0x1p53)));
      const Expr size = Expr::apply("max", value, Expr::constant(0) - value);
      if (context.same(Expr::apply("<=", size, most), Expr::constant(1))) return result;
      return invalid(std::string(type.name) + " does not hold all values of " + value.to_string(),
                     "choose a wider dtype, and cast what is computed from it");
    }
    const double value = context.attrs.real("value", 0);
    const bool holds = type.is_float
                           ? std::fabs(value) <= type.largest || std::isinf(value)
                           : value == std::trunc(value) && value <= type.largest && value >= type.lowest;
    if (!holds) return invalid("attribute 'value' is no number of " + std::string(type.name));
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const>, const Numerics&,
                Value& out) const override {
    prepare(site.out, false, out);
    const double value = site.attrs.real("value", 0);
    std::ranges::fill(out.data, HostTensor::encode(site.dtype, {1}, {&value, 1}).decode()[0]);
  }
};

}  // namespace

void add_constants(OpList& list) {
  list.push_back(std::make_unique<Iota>());
  list.push_back(std::make_unique<Full>());
}

}  // namespace lathe::ops
