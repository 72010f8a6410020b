#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "task/expr.h"

namespace lathe {

/// One attribute of a graph node, as TOML gave it. An integer may be an expression over dims ("K/2").
using AttrValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>>;

/// The attributes of a node. Getters return the fallback when the name is absent; the parser has already
/// checked names and kinds against the op's AttrRules, so a wrong kind here is a bug (asserted).
class Attrs {
 public:
  void set(std::string name, AttrValue value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> fallback) const;
  const std::map<std::string, AttrValue, std::less<>>& all() const { return values_; }

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
