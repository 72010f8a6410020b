#pragma once

#include <toml++/toml.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/spec.h"

namespace lathe {

/// Reads one TOML table with errors that name file, line and column. The table must outlive it.
class TomlTable {
 public:
  TomlTable(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

  SourcePos where(const toml::node& node) const;
  SourcePos where(std::string_view key) const;
  SourcePos where() const { return where(table_); }
  const std::string& file() const { return file_; }
  const toml::table& raw() const { return table_; }
  const toml::node* get(std::string_view key) const { return table_.get(key); }

  /// Errors on the first key that is not allowed, with the nearest one as a hint.
  Status allow_only(std::vector<std::string> keys, std::string_view what) const;

  Result<std::string> required_text(std::string_view key) const;
  Result<std::string> text(std::string_view key, std::string fallback) const;
  /// One of `choices`, which must not be empty; the first is the fallback.
  Result<std::string> choice(std::string_view key, const std::vector<std::string>& choices) const;
  Result<double> real(std::string_view key, double fallback) const;
  Result<bool> flag(std::string_view key, bool fallback) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<DType> dtype(std::string_view key, DType fallback) const;
  /// A list of integers and expressions.
  Result<std::vector<Expr>> extents(std::string_view key) const;
  /// An integer, or a text that is an expression.
  Result<Expr> expr(const toml::node& node) const;
  /// The tables of `[[key]]`, empty if absent.
  Result<std::vector<TomlTable>> tables(std::string_view key, std::size_t most) const;

 private:
  Error wrong_kind(std::string_view key, std::string_view wanted) const;

  const toml::table& table_;
  const std::string& file_;
};

/// toml++'s parser without its exceptions.
Result<toml::table> parse_toml(std::string_view text, const std::string& file);

}  // namespace lathe
