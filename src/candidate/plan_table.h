#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/expr.h"

namespace lathe {

/// Reads one table of the front matter; remembers where things stand in the candidate's text.
class TableReader {
 public:
  TableReader(const toml::table& table, const SourcePos& origin) : table_(table), origin_(origin) {}

  SourcePos where(const toml::node& node) const {
    const auto begin = node.source().begin;
    const int line = static_cast<int>(begin.line);
    return {origin_.file, origin_.line + line - 1,
            static_cast<int>(begin.column) + (line == 1 ? origin_.column - 1 : 0)};
  }
  SourcePos where() const { return where(table_); }

  Status allow(std::initializer_list<std::string_view> keys, std::string_view what) const {
    for (const auto& [key, node] : table_)
      if (std::find(keys.begin(), keys.end(), key.str()) == keys.end())
        return invalid(fmt::format("unknown key '{}' in {}", key.str(), what),
                       fmt::format("allowed: {}", fmt::join(keys, ", ")), where(node));
    return Ok{};
  }

  Result<std::string> text(std::string_view key, std::string fallback) const {
    const toml::node* node = table_.get(key);
    if (!node) return fallback;
    if (!node->is_string()) return invalid(fmt::format("'{}' must be a string", key), {}, where(*node));
    return **node->as_string();
  }

  Result<bool> flag(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (!node) return false;
    if (!node->is_boolean()) return invalid(fmt::format("'{}' must be true or false", key), {}, where(*node));
    return **node->as_boolean();
  }

  Result<std::string> required_text(std::string_view key) const {
    if (!table_.get(key))
      return invalid(fmt::format("'{}' is missing", key), "add it to this table", where());
    return text(key, "");
  }

  /// Integers and strings both name an expression.
  Result<Expr> expr(const toml::node& node) const {
    if (node.is_integer()) return Expr::constant(**node.as_integer());
    if (!node.is_string())
      return invalid("an expression must be an integer or a string", "for example \"cdiv(M, 64)\"",
                     where(node));
    SourcePos inside = where(node);
    inside.column += 1;
    return Expr::parse(**node.as_string(), inside);
  }

  Result<std::optional<Expr>> optional_expr(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (!node) return std::optional<Expr>{};
    LATHE_TRY(Expr parsed, expr(*node));
    return std::optional<Expr>(std::move(parsed));
  }

  Result<std::vector<Expr>> exprs(std::string_view key, std::size_t most) const {
    std::vector<Expr> list;
    const toml::node* node = table_.get(key);
    if (!node) return list;
    if (!node->is_array() || node->as_array()->size() > most)
      return invalid(fmt::format("'{}' must be a list of at most {} expressions", key, most), {},
                     where(*node));
    for (const toml::node& item : *node->as_array()) {
      LATHE_TRY(Expr parsed, expr(item));
      list.push_back(std::move(parsed));
    }
    return list;
  }

  Result<std::vector<std::string>> texts(std::string_view key) const {
    std::vector<std::string> list;
    const toml::node* node = table_.get(key);
    if (!node) return list;
    const toml::array* items = node->as_array();
    if (!items) return invalid(fmt::format("'{}' must be a list of strings", key), {}, where(*node));
    for (const toml::node& item : *items) {
      if (!item.is_string()) return invalid(fmt::format("'{}' must hold strings", key), {}, where(item));
      list.push_back(**item.as_string());
    }
    return list;
  }

  const toml::node* get(std::string_view key) const { return table_.get(key); }

 private:
  const toml::table& table_;
  const SourcePos& origin_;
};

}  // namespace lathe
