#include "task/expr.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>

#include "task/expr_node.h"

namespace lathe {
namespace {

using Node = Expr::Node;
using Ptr = Node::Ptr;
using Int = std::int64_t;

constexpr Int kMin = std::numeric_limits<Int>::min();
constexpr std::size_t kMaxSpacedLength = 4096;  ///< what parse accepts; longer text is printed without spaces

const ExprOpInfo& binary_info(ExprOp op) {
  for (const ExprOpInfo& info : kBinaryOps) {
    if (info.op == op) return info;
  }
  assert(false);
  return kBinaryOps[0];
}

/// Writes a tree as C, with parentheses only where precedence asks for them.
struct Printer {
  std::string_view space;
  std::string text = {};

  /// Avoids "--", C's decrement.
  void minus() { text += text.ends_with('-') ? " -" : "-"; }

  void constant(Int value) {
    if (value >= 0) {
      text += std::to_string(value);
    } else if (value == kMin) {
      text += "(-9223372036854775807 - 1)";  // C has no literal for it
    } else {
      minus();
      text += std::to_string(-value);
    }
  }

  void infix(std::string_view spelling) { text.append(space).append(spelling).append(space); }

  void write(const Node& node, int min_precedence) {
    switch (node.op) {
      case ExprOp::kConstant:
        return constant(node.value);
      case ExprOp::kSymbol:
        text += node.symbol;
        return;
      case ExprOp::kNegate:
      case ExprOp::kNot:
        return wrap(kUnaryPrecedence, min_precedence, [&] {
          if (node.op == ExprOp::kNot) {
            text += '!';
          } else {
            minus();
          }
          write(*node.a, kUnaryPrecedence);
        });
      case ExprOp::kSelect:
        return wrap(kSelectPrecedence, min_precedence, [&] {
          write(*node.a, kSelectPrecedence + 1);
          infix("?");
          write(*node.b, kSelectPrecedence);
          infix(":");
          write(*node.c, kSelectPrecedence);
        });
      default:
        return binary(node, min_precedence);
    }
  }

  void binary(const Node& node, int min_precedence) {
    const ExprOpInfo& op = binary_info(node.op);
    if (op.is_function) {
      text.append(op.spelling) += '(';
      write(*node.a, 0);
      text.append(",").append(space);
      write(*node.b, 0);
      text += ')';
      return;
    }
    wrap(op.precedence, min_precedence, [&] {
      write(*node.a, op.precedence);
      infix(op.spelling);
      write(*node.b, op.precedence + 1);
    });
  }

  template <class Body>
  void wrap(int precedence, int min_precedence, Body body) {
    if (precedence < min_precedence) text += '(';
    body();
    if (precedence < min_precedence) text += ')';
  }
};

void collect_symbols(const Node& node, std::set<std::string>& out) {
  if (node.op == ExprOp::kSymbol) out.insert(node.symbol);
  for (const Ptr* child : {&node.a, &node.b, &node.c}) {
    if (*child) collect_symbols(**child, out);
  }
}

bool is_value(const Ptr& node, Int value) { return node->op == ExprOp::kConstant && node->value == value; }

/// INT64_MIN has no literal, so folding never produces it.
bool foldable(const ExprValue& value) { return value.fault == ExprFault::kNone && value.value != kMin; }

/// True if `a op constant` is `a`.
bool right_neutral(ExprOp op, const Ptr& b) {
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kSub:
    case ExprOp::kShl:
    case ExprOp::kShr:
      return is_value(b, 0);
    case ExprOp::kMul:
    case ExprOp::kDiv:
    case ExprOp::kCdiv:
    case ExprOp::kAlign:
      return is_value(b, 1);
    default:
      return false;
  }
}

}  // namespace

const ExprOpInfo* find_binary_op(std::string_view spelling) {
  for (const ExprOpInfo& op : kBinaryOps) {
    if (op.spelling == spelling) return &op;
  }
  return nullptr;
}

namespace {

Ptr joined(ExprOp op, Ptr a, Ptr b = nullptr, Ptr c = nullptr) {
  std::int64_t terms = 1;
  for (const Ptr* child : {&a, &b, &c})
    if (*child) terms += (*child)->terms;
  terms = std::min<std::int64_t>(terms, std::numeric_limits<std::int32_t>::max());
  return std::make_shared<const Node>(Node{.op = op,
                                           .a = std::move(a),
                                           .b = std::move(b),
                                           .c = std::move(c),
                                           .terms = static_cast<std::int32_t>(terms)});
}

}  // namespace

Ptr Node::constant(Int value) { return std::make_shared<const Node>(Node{.value = value}); }

Ptr Node::unary(ExprOp op, Ptr a) {
  if (a->op == ExprOp::kConstant) {
    if (const ExprValue folded = compute_expr_unary(op, a->value); foldable(folded)) {
      return constant(folded.value);
    }
  }
  return joined(op, std::move(a));
}

Ptr Node::binary(ExprOp op, Ptr a, Ptr b) {
  if (a->op == ExprOp::kConstant && b->op == ExprOp::kConstant) {
    if (const ExprValue folded = compute_expr(op, a->value, b->value); foldable(folded)) {
      return constant(folded.value);
    }
  }
  if (right_neutral(op, b)) return a;
  if ((op == ExprOp::kAdd && is_value(a, 0)) || (op == ExprOp::kMul && is_value(a, 1))) return b;
  return joined(op, std::move(a), std::move(b));
}

Ptr Node::select(Ptr condition, Ptr if_true, Ptr if_false) {
  if (condition->op == ExprOp::kConstant) return condition->value != 0 ? if_true : if_false;
  return joined(ExprOp::kSelect, std::move(condition), std::move(if_true), std::move(if_false));
}

namespace {

Ptr replace(const Ptr& node, const std::map<std::string, Ptr>& replacements) {
  switch (node->op) {
    case ExprOp::kConstant:
      return node;
    case ExprOp::kSymbol: {
      const auto found = replacements.find(node->symbol);
      return found == replacements.end() ? node : found->second;
    }
    case ExprOp::kNegate:
    case ExprOp::kNot:
      return Node::unary(node->op, replace(node->a, replacements));
    case ExprOp::kSelect:
      return Node::select(replace(node->a, replacements), replace(node->b, replacements),
                          replace(node->c, replacements));
    default:
      return Node::binary(node->op, replace(node->a, replacements), replace(node->b, replacements));
  }
}

}  // namespace

Result<Expr> Expr::parse(std::string_view text, const SourcePos& where) {
  LATHE_TRY(Ptr node, parse_expr(text, where));
  return Expr(std::move(node));
}

Expr Expr::constant(Int value) { return Expr(Node::constant(value)); }

Expr Expr::symbol(std::string name) {
  return Expr(std::make_shared<const Node>(Node{.op = ExprOp::kSymbol, .symbol = std::move(name)}));
}

Result<Int> Expr::evaluate(const Dims& names) const {
  const ExprValue result = evaluate_node(*node_, names);
  const auto text = [&] {
    Printer printer{" "};
    printer.write(*result.at, 0);
    return "\"" + printer.text.substr(0, 120) + "\"";
  };
  switch (result.fault) {
    case ExprFault::kNone:
      return result.value;
    case ExprFault::kUnbound:
      return invalid("no value for " + result.at->symbol);
    case ExprFault::kZeroDivision:
      return invalid("division by zero (or cdiv, align by <= 0) in " + text());
    case ExprFault::kShift:
      return invalid("shift by less than 0 or more than 62 in " + text());
    case ExprFault::kOverflow:
      break;
  }
  return invalid("64-bit overflow in " + text());
}

std::string Expr::to_string() const {
  Printer spaced{" "};
  spaced.write(*node_, 0);
  if (spaced.text.size() <= kMaxSpacedLength) return spaced.text;
  Printer dense{""};
  dense.write(*node_, 0);
  return dense.text;
}

std::set<std::string> Expr::symbols() const {
  std::set<std::string> names;
  collect_symbols(*node_, names);
  return names;
}

bool Expr::is_constant() const { return node_->op == ExprOp::kConstant; }

std::int32_t Expr::terms() const { return node_->terms; }

Expr Expr::substitute(const std::map<std::string, Expr>& replacements) const {
  std::map<std::string, Ptr> nodes;
  for (const auto& [name, expr] : replacements) nodes.emplace(name, expr.node_);
  return Expr(replace(node_, nodes));
}

Expr Expr::apply(std::string_view op, const Expr& a, const Expr& b) {
  const ExprOpInfo* found = find_binary_op(op);
  assert(found != nullptr);
  return Expr(Node::binary(found->op, a.node_, b.node_));
}

}  // namespace lathe
