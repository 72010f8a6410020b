#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "task/dtype.h"
#include "task/expr.h"

namespace lathe {

/// One value of a TOML text. The members of a table stand in the order in which they were written.
struct TomlValue {
  enum class Kind { kScalar, kDate, kList, kTable };

  Kind kind = Kind::kScalar;
  std::variant<std::string, std::int64_t, double, bool> scalar;
  std::vector<TomlValue> items;  ///< of a list, or the members of a table
  std::string key;               ///< the name of a table's member
  int line = 0, column = 0;      ///< in the TOML text, from 1
  int key_line = 0, key_column = 0;

  const std::string* text() const { return scalar_of<std::string>(); }
  const std::int64_t* integer() const { return scalar_of<std::int64_t>(); }
  const double* real() const { return scalar_of<double>(); }
  const bool* flag() const { return scalar_of<bool>(); }
  bool is_list() const { return kind == Kind::kList; }
  bool is_table() const { return kind == Kind::kTable; }

 private:
  template <class T>
  const T* scalar_of() const {
    return kind == Kind::kScalar ? std::get_if<T>(&scalar) : nullptr;
  }
};

/// Reads one table; its errors name file, line and column. A view: the document must outlive it.
class TomlTable {
 public:
  TomlTable(const TomlValue& table, const SourcePos& origin) : table_(&table), origin_(&origin) {}

  SourcePos where() const { return where(*table_); }
  SourcePos where(const TomlValue& value) const { return place(value.line, value.column); }
  /// The place of the value under `key`, or of the table where the key is absent.
  SourcePos where(std::string_view key) const;

  const TomlValue* get(std::string_view key) const;
  bool has(std::string_view key) const { return get(key) != nullptr; }
  const std::vector<TomlValue>& members() const { return table_->items; }
  /// The table that `value` holds, with errors in the same file.
  TomlTable inner(const TomlValue& value) const { return {value, *origin_}; }

  /// Errors on the first key that is not allowed; the hint is the nearest allowed one.
  Status allow_only(const std::vector<std::string>& keys, std::string_view what) const;

  Result<std::string> required_text(std::string_view key) const;
  Result<std::string> text(std::string_view key, std::string fallback) const;
  /// One of `choices`, which must not be empty; the first is the fallback.
  Result<std::string> choice(std::string_view key, const std::vector<std::string>& choices) const;
  Result<double> real(std::string_view key, double fallback) const;
  Result<bool> flag(std::string_view key, bool fallback) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<DType> dtype(std::string_view key, DType fallback) const;

  /// An integer, or a string that is an expression.
  Result<Expr> expr(const TomlValue& value) const;
  Result<std::optional<Expr>> optional_expr(std::string_view key) const;
  Result<std::vector<Expr>> exprs(std::string_view key, std::size_t most) const;

  /// The tables of `[[key]]`, empty if absent.
  Result<std::vector<TomlTable>> tables(std::string_view key, std::size_t most) const;

 private:
  SourcePos place(int line, int column) const;
  Error wrong_kind(std::string_view key, std::string_view wanted) const;

  const TomlValue* table_;
  const SourcePos* origin_;
};

/// A parsed TOML text, which is the whole of a file or a part of it.
class TomlDocument {
 public:
  /// `origin` is the place of the text's first character; a line of 0 means the start of the file.
  /// Any bytes are safe to parse: texts above 1 MiB, brackets nested more than 16 deep and keys of
  /// more than 16 dotted parts are refused. Errors: kInvalid, with the place.
  static Result<TomlDocument> parse(std::string_view text, SourcePos origin);

  TomlTable root() const { return {root_, origin_}; }

 private:
  TomlDocument(TomlValue root, SourcePos origin) : root_(std::move(root)), origin_(std::move(origin)) {}

  TomlValue root_;
  SourcePos origin_;
};

}  // namespace lathe
