#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "task/expr.h"

namespace lathe {

/// One attribute of a graph node, as TOML gave it. Where the rule says kInteger, a string is an expression
/// over dims ("K/2"); where it says kIntegers, so is each element of a list of strings (["B", "H", "K/2",
/// "-1"]).
using AttrValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<std::string>>;

struct AttrRule;

/// The attributes of a node. Getters return the fallback when the name is absent; the parser has already
/// checked names and kinds against the op's AttrRules, so a wrong kind here is a bug (asserted). An integer
/// serves as a real and as a list of one.
class Attrs {
 public:
  void set(std::string name, AttrValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback) const;
  /// The same as expressions, before dims have values. Errors: text that does not parse.
  Result<Expr> expression(std::string_view name, const Expr& fallback) const;
  Result<std::vector<Expr>> expressions(std::string_view name, std::vector<Expr> fallback) const;
  const std::map<std::string, AttrValue, std::less<>>& all() const { return values_; }

  /// With every expression evaluated, which evaluate(), flops() and the other getters of integers need.
  Result<Attrs> bind(const std::vector<AttrRule>& rules, const Dims& dims) const;

 private:
  std::map<std::string, AttrValue, std::less<>> values_;
};

enum class AttrKind { kInteger, kReal, kFlag, kText, kIntegers };

/// What an op accepts: used for checking a task and for telling its writer the alternatives.
struct AttrRule {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  std::vector<std::string_view> choices = {};  ///< for kText
};

}  // namespace lathe
