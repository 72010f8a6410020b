#include <cassert>
#include <limits>

#include "task/expr_node.h"

namespace lathe {
namespace {

using Node = Expr::Node;
using Int = std::int64_t;

ExprValue fault(ExprFault kind) { return {0, kind, nullptr}; }
ExprValue boolean(bool value) { return {value ? 1 : 0}; }

ExprValue ceil_divide(Int a, Int b) {
  if (b <= 0) return fault(ExprFault::kZeroDivision);
  const Int quotient = a / b;
  return {a % b > 0 ? quotient + 1 : quotient};
}

ExprValue multiply(Int a, Int b) {
  Int product = 0;
  return __builtin_mul_overflow(a, b, &product) ? fault(ExprFault::kOverflow) : ExprValue{product};
}

ExprValue shift(ExprOp op, Int a, Int b) {
  if (b < 0 || b > 62) return fault(ExprFault::kShift);
  if (op == ExprOp::kShr) return {a >> b};
  return multiply(a, Int{1} << b);
}

ExprValue divide(ExprOp op, Int a, Int b) {
  if (b == 0) return fault(ExprFault::kZeroDivision);
  if (a == std::numeric_limits<Int>::min() && b == -1) return fault(ExprFault::kOverflow);
  return {op == ExprOp::kDiv ? a / b : a % b};
}

ExprValue evaluate_binary(const Node& node, const Dims& names) {
  const ExprValue a = evaluate_node(*node.a, names);
  if (a.fault != ExprFault::kNone) return a;
  if (node.op == ExprOp::kAnd && a.value == 0) return boolean(false);
  if (node.op == ExprOp::kOr && a.value != 0) return boolean(true);
  const ExprValue b = evaluate_node(*node.b, names);
  if (b.fault != ExprFault::kNone) return b;
  return compute_expr(node.op, a.value, b.value);
}

}  // namespace

ExprValue compute_expr(ExprOp op, Int a, Int b) {
  Int result = 0;
  switch (op) {
    case ExprOp::kOr:
      return boolean(a != 0 || b != 0);
    case ExprOp::kAnd:
      return boolean(a != 0 && b != 0);
    case ExprOp::kEq:
      return boolean(a == b);
    case ExprOp::kNe:
      return boolean(a != b);
    case ExprOp::kLt:
      return boolean(a < b);
    case ExprOp::kLe:
      return boolean(a <= b);
    case ExprOp::kGt:
      return boolean(a > b);
    case ExprOp::kGe:
      return boolean(a >= b);
    case ExprOp::kShl:
    case ExprOp::kShr:
      return shift(op, a, b);
    case ExprOp::kAdd:
      return __builtin_add_overflow(a, b, &result) ? fault(ExprFault::kOverflow) : ExprValue{result};
    case ExprOp::kSub:
      return __builtin_sub_overflow(a, b, &result) ? fault(ExprFault::kOverflow) : ExprValue{result};
    case ExprOp::kMul:
      return multiply(a, b);
    case ExprOp::kDiv:
    case ExprOp::kMod:
      return divide(op, a, b);
    case ExprOp::kCdiv:
      return ceil_divide(a, b);
    case ExprOp::kMin:
      return {a < b ? a : b};
    case ExprOp::kMax:
      return {a > b ? a : b};
    case ExprOp::kAlign: {
      const ExprValue blocks = ceil_divide(a, b);
      return blocks.fault == ExprFault::kNone ? multiply(blocks.value, b) : blocks;
    }
    default:
      break;
  }
  assert(false);
  return fault(ExprFault::kOverflow);
}

ExprValue compute_expr_unary(ExprOp op, Int a) {
  if (op == ExprOp::kNot) return boolean(a == 0);
  return compute_expr(ExprOp::kSub, 0, a);
}

ExprValue evaluate_node(const Node& node, const Dims& names) {
  ExprValue result;
  switch (node.op) {
    case ExprOp::kConstant:
      return {node.value};
    case ExprOp::kSymbol: {
      const auto found = names.find(node.symbol);
      result = found == names.end() ? fault(ExprFault::kUnbound) : ExprValue{found->second};
      break;
    }
    case ExprOp::kNegate:
    case ExprOp::kNot:
      result = evaluate_node(*node.a, names);
      if (result.fault == ExprFault::kNone) result = compute_expr_unary(node.op, result.value);
      break;
    case ExprOp::kSelect:
      result = evaluate_node(*node.a, names);
      if (result.fault == ExprFault::kNone)
        return evaluate_node(result.value != 0 ? *node.b : *node.c, names);
      break;
    default:
      result = evaluate_binary(node, names);
  }
  if (result.fault != ExprFault::kNone && result.at == nullptr) result.at = &node;
  return result;
}

}  // namespace lathe
