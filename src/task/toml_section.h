#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "task/toml_table.h"

namespace lathe {

/// One named table of a document that configures something; an absent one is empty. read() leaves
/// its target as it is where the key is absent. Errors: kInvalid with line and column.
class TomlSection {
 public:
  static Result<TomlSection> open(const TomlTable& root, const char* name, std::vector<std::string> keys) {
    const TomlValue* value = root.get(name);
    if (!value) return TomlSection(std::nullopt);
    if (!value->is_table()) return invalid(fmt::format("'{}' is no table", name), {}, root.where(name));
    const TomlTable table = root.inner(*value);
    LATHE_CHECK_OK(table.allow_only(keys, fmt::format("[{}]", name)));
    return TomlSection(table);
  }

  bool present() const { return table_.has_value(); }
  const TomlTable& table() const { return *table_; }

  Status read(const char* key, std::string& to) const {
    if (!has(key)) return Ok{};
    LATHE_TRY(to, table_->text(key, to));
    return Ok{};
  }
  Status read(const char* key, bool& to) const {
    if (!has(key)) return Ok{};
    LATHE_TRY(to, table_->flag(key, to));
    return Ok{};
  }
  Status read(const char* key, std::int64_t& to, std::int64_t least, std::int64_t most) const {
    if (!has(key)) return Ok{};
    const std::int64_t* number = table_->get(key)->integer();
    if (!number || *number < least || *number > most)
      return invalid(fmt::format("'{}' is no whole number from {} to {}", key, least, most), {},
                     table_->where(key));
    to = *number;
    return Ok{};
  }
  Status read(const char* key, double& to, double least, double most) const {
    if (!has(key)) return Ok{};
    LATHE_TRY(const double number, table_->real(key, to));
    if (!(number >= least && number <= most))
      return invalid(fmt::format("'{}' is {}, not between {} and {}", key, number, least, most), {},
                     table_->where(key));
    to = number;
    return Ok{};
  }

 private:
  explicit TomlSection(std::optional<TomlTable> table) : table_(table) {}
  bool has(const char* key) const { return table_ && table_->has(key); }

  std::optional<TomlTable> table_;
};

}  // namespace lathe
