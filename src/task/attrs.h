#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "task/expr.h"

namespace lathe {

/// The value of a node's attribute as written. For kInteger and kNumber a string is an expression
/// over dims ("K/2"); for kIntegers each element of a list of strings is one (["B", "H", "K/2",
/// "-1"]).
using AttrValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<std::string>>;

struct AttrRule;

/// The attributes of a node. Getters return the fallback if the name is absent. The parser has
/// checked names and kinds against the op's AttrRules, so a wrong kind is a bug (asserted). An
/// integer converts to a real and to a list of one.
class Attrs {
 public:
  void set(std::string name, AttrValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback) const;
  /// Attributes as expressions, before dims have values. Errors: text that does not parse.
  Result<Expr> expression(std::string_view name, const Expr& fallback) const;
  Result<std::vector<Expr>> expressions(std::string_view name, std::vector<Expr> fallback) const;
  const std::map<std::string, AttrValue, std::less<>>& all() const { return values_; }

  /// The attributes with every expression evaluated, as the integer getters require.
  Result<Attrs> bind(const std::vector<AttrRule>& rules, const Dims& dims) const;

 private:
  std::map<std::string, AttrValue, std::less<>> values_;
};

/// kNumber is a real, or an expression over dims.
enum class AttrKind { kInteger, kReal, kNumber, kFlag, kText, kIntegers };

/// An attribute that an op accepts; used to check tasks and to suggest alternatives in errors.
struct AttrRule {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  std::vector<std::string_view> choices = {};  ///< for kText
};

}  // namespace lathe
