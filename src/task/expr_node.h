#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "task/expr.h"

namespace lathe {

enum class ExprOp {
  kConstant,
  kSymbol,
  kNegate,
  kNot,
  kSelect,
  kOr,
  kAnd,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kShl,
  kShr,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kCdiv,
  kMin,
  kMax,
  kAlign,
};

/// The syntax of an operator. A higher precedence binds tighter.
struct ExprOpInfo {
  ExprOp op;
  std::string_view spelling;
  int precedence;
  bool is_function = false;
};
inline constexpr int kSelectPrecedence = 1;
inline constexpr int kUnaryPrecedence = 10;
inline constexpr int kPrimaryPrecedence = 11;
inline constexpr ExprOpInfo kBinaryOps[] = {
    {ExprOp::kOr, "||", 2},
    {ExprOp::kAnd, "&&", 3},
    {ExprOp::kEq, "==", 4},
    {ExprOp::kNe, "!=", 4},
    {ExprOp::kLe, "<=", 5},
    {ExprOp::kGe, ">=", 5},
    {ExprOp::kShl, "<<", 6},
    {ExprOp::kShr, ">>", 6},
    {ExprOp::kLt, "<", 5},
    {ExprOp::kGt, ">", 5},
    {ExprOp::kAdd, "+", 7},
    {ExprOp::kSub, "-", 7},
    {ExprOp::kMul, "*", 8},
    {ExprOp::kDiv, "/", 8},
    {ExprOp::kMod, "%", 8},
    {ExprOp::kCdiv, "cdiv", kPrimaryPrecedence, true},
    {ExprOp::kMin, "min", kPrimaryPrecedence, true},
    {ExprOp::kMax, "max", kPrimaryPrecedence, true},
    {ExprOp::kAlign, "align", kPrimaryPrecedence, true},
};

/// nullptr if there is no such binary operator or function.
const ExprOpInfo* find_binary_op(std::string_view spelling);

/// A syntax tree's node. kSelect has `a ? b : c`; unary operators have `a` alone.
struct Expr::Node {
  ExprOp op = ExprOp::kConstant;
  std::int64_t value = 0;
  std::string symbol = {};
  std::shared_ptr<const Node> a = {};
  std::shared_ptr<const Node> b = {};
  std::shared_ptr<const Node> c = {};
  std::int32_t terms = 1;  ///< of the tree below: shared nodes count wherever they stand

  using Ptr = std::shared_ptr<const Node>;
  static Ptr constant(std::int64_t value);
  /// Builders that fold constants (never an operation that fails) and neutral elements.
  static Ptr unary(ExprOp op, Ptr a);
  static Ptr binary(ExprOp op, Ptr a, Ptr b);
  static Ptr select(Ptr condition, Ptr if_true, Ptr if_false);
};

enum class ExprFault { kNone, kUnbound, kZeroDivision, kOverflow, kShift };

/// A value or the first error met; cheaper than a Result at every node.
struct ExprValue {
  std::int64_t value = 0;
  ExprFault fault = ExprFault::kNone;
  const Expr::Node* at = nullptr;
};

/// Evaluates a binary operator; `at` stays null.
ExprValue compute_expr(ExprOp op, std::int64_t a, std::int64_t b);
ExprValue compute_expr_unary(ExprOp op, std::int64_t a);
ExprValue evaluate_node(const Expr::Node& node, const Dims& names);

/// The parser behind Expr::parse.
Result<Expr::Node::Ptr> parse_expr(std::string_view text, const SourcePos& where);

}  // namespace lathe
