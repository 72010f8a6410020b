#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// Integer values by name: a task's dims, a device's facts, a loop index.
using Dims = std::map<std::string, std::int64_t>;

/// An integer expression over names, as written in tasks and plans: + - * / % << >> comparisons &&
/// || ! ?: cdiv min max align and parentheses. Division truncates as in C. Immutable; cheap to
/// copy.
class Expr {
 public:
  /// Parses untrusted text of at most 4096 characters, nested at most 64 deep.
  static Result<Expr> parse(std::string_view text, const SourcePos& where = {});
  static Expr constant(std::int64_t value);
  static Expr symbol(std::string name);
  Expr() : Expr(constant(0)) {}

  /// Errors: an unbound name, division by zero, overflow. Never undefined behaviour.
  Result<std::int64_t> evaluate(const Dims& names) const;
  /// Text that parses back to an equal expression and is valid C, given the functions cdiv, min,
  /// max and align (device/lathe/cpu.h defines them).
  std::string to_string() const;
  std::set<std::string> symbols() const;
  bool is_constant() const;
  /// Operators, names and constants, which bounds what evaluate() costs. Saturates at 2^31 - 1.
  std::int32_t terms() const;
  /// Substitutes expressions for names; other names stay.
  Expr substitute(const std::map<std::string, Expr>& replacements) const;

  /// Applies a binary operator or function, given by its spelling ("+", "cdiv"); folds constants
  /// and neutral elements.
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
