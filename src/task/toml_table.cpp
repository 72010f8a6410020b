#include "task/toml_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "task/near_name.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxRank = 8;

SourcePos position(const std::string& file, const toml::source_position& at) {
  return {file, static_cast<int>(at.line), static_cast<int>(at.column)};
}

}  // namespace

SourcePos TomlTable::where(const toml::node& node) const { return position(file_, node.source().begin); }

SourcePos TomlTable::where(std::string_view key) const {
  const toml::node* node = table_.get(key);
  return node != nullptr ? where(*node) : where();
}

Error TomlTable::wrong_kind(std::string_view key, std::string_view wanted) const {
  return invalid(fmt::format("'{}' must be {}", key, wanted), {}, where(key));
}

Status TomlTable::allow_only(std::vector<std::string> keys, std::string_view what) const {
  for (const auto& [key, node] : table_) {
    if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
    return invalid(fmt::format("unknown key '{}' in {}", key.str(), what), near_name_hint(key.str(), keys),
                   position(file_, key.source().begin));
  }
  return Ok{};
}

Result<std::string> TomlTable::required_text(std::string_view key) const {
  if (get(key) == nullptr)
    return invalid(fmt::format("'{}' is missing", key), "add it to this table", where());
  return text(key, "");
}

Result<std::string> TomlTable::text(std::string_view key, std::string fallback) const {
  const toml::node* node = get(key);
  if (node == nullptr) return fallback;
  if (!node->is_string()) return wrong_kind(key, "a text in quotes");
  return **node->as_string();
}

Result<std::string> TomlTable::choice(std::string_view key, const std::vector<std::string>& choices) const {
  LATHE_TRY(std::string chosen, text(key, choices.front()));
  if (std::find(choices.begin(), choices.end(), chosen) != choices.end()) return chosen;
  return invalid(fmt::format("unknown {} '{}'", key, chosen), near_name_hint(chosen, choices), where(key));
}

Result<double> TomlTable::real(std::string_view key, double fallback) const {
  const toml::node* node = get(key);
  if (node == nullptr) return fallback;
  if (!node->is_number()) return wrong_kind(key, "a number");
  return *node->value<double>();
}

Result<bool> TomlTable::flag(std::string_view key, bool fallback) const {
  const toml::node* node = get(key);
  if (node == nullptr) return fallback;
  if (!node->is_boolean()) return wrong_kind(key, "true or false");
  return **node->as_boolean();
}

Result<std::vector<std::string>> TomlTable::texts(std::string_view key) const {
  std::vector<std::string> list;
  const toml::node* node = get(key);
  if (node == nullptr) return list;
  if (!node->is_array()) return wrong_kind(key, "a list of texts");
  for (const toml::node& item : *node->as_array()) {
    if (!item.is_string()) return wrong_kind(key, "a list of texts");
    list.push_back(**item.as_string());
  }
  return list;
}

Result<DType> TomlTable::dtype(std::string_view key, DType fallback) const {
  if (get(key) == nullptr) return fallback;
  LATHE_TRY(const std::string name, text(key, ""));
  return parse_dtype(name, where(key));
}

Result<Expr> TomlTable::expr(const toml::node& node) const {
  if (node.is_integer()) return Expr::constant(**node.as_integer());
  if (!node.is_string()) {
    return invalid("must be an integer or an expression in quotes", "for example \"cdiv(K, 32)\"",
                   where(node));
  }
  SourcePos inside = where(node);
  inside.column += 1;
  return Expr::parse(**node.as_string(), inside);
}

Result<std::vector<Expr>> TomlTable::extents(std::string_view key) const {
  std::vector<Expr> list;
  const toml::node* node = get(key);
  if (node == nullptr) return list;
  if (!node->is_array()) return wrong_kind(key, "a list of extents, such as [\"M\", \"K\"]");
  if (node->as_array()->size() > kMaxRank) return wrong_kind(key, "a list of at most 8 extents");
  for (const toml::node& item : *node->as_array()) {
    LATHE_TRY(Expr extent, expr(item));
    list.push_back(std::move(extent));
  }
  return list;
}

Result<std::vector<TomlTable>> TomlTable::tables(std::string_view key, std::size_t most) const {
  std::vector<TomlTable> list;
  const toml::node* node = get(key);
  if (node == nullptr) return list;
  if (!node->is_array()) return wrong_kind(key, fmt::format("a list of tables: [[{}]]", key));
  if (node->as_array()->size() > most) return wrong_kind(key, fmt::format("a list of at most {}", most));
  for (const toml::node& item : *node->as_array()) {
    if (!item.is_table()) return wrong_kind(key, fmt::format("a list of tables: [[{}]]", key));
    list.emplace_back(*item.as_table(), file_);
  }
  return list;
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return invalid(std::string(error.description()), "this is not valid TOML",
                   position(file, error.source().begin));
  } catch (const std::exception& error) {
    return invalid(error.what(), "this is not valid TOML", {file, 0, 0});
  }
}

}  // namespace lathe
