#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// Names bound to integers: a task's dims, a device's facts, a loop's index.
using Dims = std::map<std::string, std::int64_t>;

/// An integer expression over names, as tasks and plans write it: + - * / % << >> comparisons && || ! ?:
/// cdiv min max align and parentheses. Division truncates as in C. Immutable; cheap to copy.
class Expr {
 public:
  /// Text of at most 4096 characters, nested at most 64 deep: it may come from a model.
  static Result<Expr> parse(std::string_view text, const SourcePos& where = {});
  static Expr constant(std::int64_t value);
  static Expr symbol(std::string name);
  Expr() : Expr(constant(0)) {}

  /// Errors: an unbound name, division by zero, overflow. Never undefined behaviour.
  Result<std::int64_t> evaluate(const Dims& names) const;
  /// Fully parenthesised where needed; parses back to an equal expression and is valid C given
  /// cdiv, min, max and align as functions (device/lathe/cpu.h has them).
  std::string to_string() const;
  std::set<std::string> symbols() const;
  bool is_constant() const;
  /// Replaces names by expressions; names without a replacement stay.
  Expr substitute(const std::map<std::string, Expr>& replacements) const;

  /// Binary operator or function by its spelling ("+", "cdiv"); folds constants and neutral elements.
  static Expr apply(std::string_view op, const Expr& a, const Expr& b);
  friend Expr operator+(const Expr& a, const Expr& b) { return apply("+", a, b); }
  friend Expr operator-(const Expr& a, const Expr& b) { return apply("-", a, b); }
  friend Expr operator*(const Expr& a, const Expr& b) { return apply("*", a, b); }
  friend Expr operator/(const Expr& a, const Expr& b) { return apply("/", a, b); }

  struct Node;  ///< the syntax tree; private to expr.cpp

 private:
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

}  // namespace lathe
