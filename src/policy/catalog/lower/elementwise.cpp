#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {

namespace {

/// Small powers without exp and log.
bool lower_power(Lowering& to, double exponent) {
  const auto as = [&](const std::string& pattern) {
    return to.apply(pattern, {to.node().in[0]}, true), true;
  };
  if (exponent == 2) return as("{0} * {0}");
  if (exponent == 3) return as("{0} * {0} * {0}");
  if (exponent == 4) return as("({0} * {0}) * ({0} * {0})");
  if (exponent == 0.5) return as("lathe::sqrt({0})");
  if (exponent == -0.5) return as("lathe::rsqrt({0})");
  if (exponent == -1) return as("1.0f / {0}");
  return false;
}

}  // namespace

bool lower_elementwise(Lowering& to) {
  const NodeDecl& node = to.node();
  if (node.op->op_class() != OpClass::kElementwise) return false;
  if (node.op->c_expression(node.attrs, node.in).empty()) return false;
  if (node.op_name == "pow_scalar" && lower_power(to, node.attrs.real("exponent", 1))) return true;
  std::vector<std::string> operands = node.in;
  if (const auto channel = node.op->channel_axis(node.attrs)) {
    const int out_rank = static_cast<int>(node.type.shape.size());
    const int axis =
        static_cast<int>(*channel) < 0 ? static_cast<int>(*channel) + out_rank : static_cast<int>(*channel);
    for (std::string& operand : operands) {
      if (to.rank(operand) != 1 || axis == out_rank - 1) continue;
      std::vector<Expr> shape = to.shape(operand);
      shape.resize(static_cast<std::size_t>(out_rank - axis), Expr::constant(1));
      operand = to.view(operand, std::move(shape));
    }
  }
  const Op* op = node.op;
  const Attrs attrs = node.attrs;
  to.apply([op, attrs](std::span<const std::string> names) { return op->c_expression(attrs, names); },
           std::move(operands), true);
  return true;
}

}  // namespace lathe::catalog
