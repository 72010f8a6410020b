#include "task/toml_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

// Where text is no TOML, toml++ may assert what the text does not keep: here that throws, in every
// build.
namespace {
[[noreturn]] void refuse_toml(const char* expected) {
  throw std::logic_error(std::string("toml++ expects ") + expected);
}
}  // namespace
#undef NDEBUG
#define TOML_ASSERT(condition) ((condition) ? void() : refuse_toml(#condition))
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "task/names.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr int kMaxNesting = 16;
constexpr int kMaxKeyParts = 16;

SourcePos place_in(const SourcePos& origin, int line, int column) {
  const int first_line = std::max(origin.line, 1), first_column = std::max(origin.column, 1);
  return {origin.file, first_line + line - 1, line == 1 ? first_column + column - 1 : column};
}

/// Refuses what toml++ does not survive. It recurses, in parsing and in destroying its tables, on
/// nested brackets and dotted keys, asserts that the name in a table's header begins as names do,
/// and takes some letters beyond ASCII to be impossible. The check skips strings and comments as
/// TOML defines them and leaves every other error to toml++.
class SafetyCheck {
 public:
  SafetyCheck(std::string_view text, const SourcePos& origin) : text_(text), origin_(origin) {}

  Status run() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) > 0x7f)
        return fail("a character beyond ASCII outside of strings and comments", "quote it", at_);
      if (c == '[' && depth_ == 0 && !value_follows_) LATHE_CHECK_OK(check_header());
      value_follows_ = c == '=' || (value_follows_ && is_blank(c));
      if (c == '"' || c == '\'') {
        skip_string(c);
        LATHE_CHECK_OK(count_part());
      } else if (is_bare(c)) {
        while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
        LATHE_CHECK_OK(count_part());
      } else {
        ++at_;
        LATHE_CHECK_OK(punctuation(c));
      }
    }
    return Ok{};
  }

 private:
  static bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t'; }

  /// What follows the brackets of a header is a name, or what toml++ refuses itself.
  Status check_header() const {
    const bool twice = text_.substr(at_).starts_with("[[");
    std::size_t next = at_ + (twice ? 2 : 1);
    while (next < text_.size() && is_blank(text_[next])) ++next;
    if (next == text_.size()) return Ok{};
    const char c = text_[next];
    if (is_bare(c) || c == '"' || c == '\'' || c == ']' || (c == '[' && !twice)) return Ok{};
    return fail("a table's name begins with none of A-Z, a-z, 0-9, _, - and quotes", "write [name]", next);
  }

  Status punctuation(char c) {
    switch (c) {
      case ' ':
      case '\t':
        return Ok{};
      case '.':
        after_dot_ = true;
        return Ok{};
      case '#':
        at_ = std::min(text_.find('\n', at_), text_.size());
        return Ok{};
      case '[':
      case '{':
        if (++depth_ > kMaxNesting)
          return too_deep(fmt::format("brackets are nested more than {} deep", kMaxNesting));
        break;
      case ']':
      case '}':
        depth_ = std::max(0, depth_ - 1);
        break;
      default:
        break;
    }
    parts_ = 0;
    after_dot_ = false;
    return Ok{};
  }

  Status count_part() {
    parts_ = after_dot_ ? parts_ + 1 : 1;
    after_dot_ = false;
    if (parts_ > kMaxKeyParts)
      return too_deep(fmt::format("a key has more than {} dotted parts", kMaxKeyParts));
    return Ok{};
  }

  void skip_string(char quote) {
    const std::string fence(3, quote);
    const bool multi_line = text_.substr(at_).starts_with(fence);
    const bool escapes = quote == '"';
    at_ += multi_line ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n' && !multi_line) return;
      if (c == '\\' && escapes) {
        at_ = std::min(at_ + 2, text_.size());
      } else if (c != quote || (multi_line && !text_.substr(at_).starts_with(fence))) {
        ++at_;
      } else {
        at_ += multi_line ? 3 : 1;
        // Up to two quotes before the closing three belong to the string.
        for (int more = 0; multi_line && more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
        return;
      }
    }
  }

  Error too_deep(std::string message) const {
    return fail(std::move(message), "write flatter tables", at_ - 1);
  }

  Error fail(std::string message, std::string hint, std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    const int line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    const std::size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
    return invalid(std::move(message), std::move(hint),
                   place_in(origin_, line, static_cast<int>(at - line_start) + 1));
  }

  std::string_view text_;
  const SourcePos& origin_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int parts_ = 0;
  bool after_dot_ = false;
  bool value_follows_ = false;  ///< nothing but blanks since an equals sign
};

TomlValue converted(const toml::node& node) {
  TomlValue value;
  value.line = static_cast<int>(node.source().begin.line);
  value.column = static_cast<int>(node.source().begin.column);
  if (const toml::table* table = node.as_table()) {
    value.kind = TomlValue::Kind::kTable;
    for (const auto& [key, item] : *table) {
      TomlValue member = converted(item);
      member.key = key.str();
      member.key_line = static_cast<int>(key.source().begin.line);
      member.key_column = static_cast<int>(key.source().begin.column);
      value.items.push_back(std::move(member));
    }
    std::ranges::stable_sort(value.items, {}, [](const TomlValue& member) {
      return std::pair(member.key_line, member.key_column);
    });
  } else if (const toml::array* list = node.as_array()) {
    value.kind = TomlValue::Kind::kList;
    for (const toml::node& item : *list) value.items.push_back(converted(item));
  } else if (node.is_string()) {
    value.scalar = **node.as_string();
  } else if (node.is_integer()) {
    value.scalar = **node.as_integer();
  } else if (node.is_floating_point()) {
    value.scalar = **node.as_floating_point();
  } else if (node.is_boolean()) {
    value.scalar = **node.as_boolean();
  } else {
    value.kind = TomlValue::Kind::kDate;
  }
  return value;
}

}  // namespace

Result<TomlDocument> TomlDocument::parse(std::string_view text, SourcePos origin) {
  if (text.size() > kMaxBytes)
    return invalid(fmt::format("{} bytes of TOML are too many", text.size()), "at most 1 MiB", origin);
  LATHE_CHECK_OK(SafetyCheck(text, origin).run());
  try {
    TomlValue root = converted(toml::parse(text));
    return TomlDocument(std::move(root), std::move(origin));
  } catch (const toml::parse_error& error) {
    const auto begin = error.source().begin;
    return invalid(std::string(error.description()), "this is not valid TOML",
                   place_in(origin, static_cast<int>(begin.line), static_cast<int>(begin.column)));
  } catch (const std::exception& error) {
    return invalid(error.what(), "this is not valid TOML", std::move(origin));
  }
}

SourcePos TomlTable::place(int line, int column) const { return place_in(*origin_, line, column); }

SourcePos TomlTable::where(std::string_view key) const {
  const TomlValue* value = get(key);
  return where(value != nullptr ? *value : *table_);
}

const TomlValue* TomlTable::get(std::string_view key) const {
  const auto found = std::ranges::find(table_->items, key, &TomlValue::key);
  return found == table_->items.end() ? nullptr : &*found;
}

Error TomlTable::wrong_kind(std::string_view key, std::string_view wanted) const {
  return invalid(fmt::format("'{}' must be {}", key, wanted), {}, where(key));
}

Status TomlTable::allow_only(const std::vector<std::string>& keys, std::string_view what) const {
  for (const TomlValue& member : table_->items) {
    if (std::ranges::find(keys, member.key) != keys.end()) continue;
    return invalid(fmt::format("unknown key '{}' in {}", member.key, what), did_you_mean(member.key, keys),
                   place(member.key_line, member.key_column));
  }
  return Ok{};
}

Result<std::string> TomlTable::required_text(std::string_view key) const {
  if (!has(key)) return invalid(fmt::format("'{}' is missing", key), "add it to this table", where());
  return text(key, "");
}

Result<std::string> TomlTable::text(std::string_view key, std::string fallback) const {
  const TomlValue* value = get(key);
  if (value == nullptr) return fallback;
  if (value->text() == nullptr) return wrong_kind(key, "a string");
  return *value->text();
}

Result<std::string> TomlTable::choice(std::string_view key, const std::vector<std::string>& choices) const {
  LATHE_TRY(std::string chosen, text(key, choices.front()));
  if (std::ranges::find(choices, chosen) != choices.end()) return chosen;
  return invalid(fmt::format("unknown {} '{}'", key, chosen), did_you_mean(chosen, choices), where(key));
}

Result<double> TomlTable::real(std::string_view key, double fallback) const {
  const TomlValue* value = get(key);
  if (value == nullptr) return fallback;
  if (value->integer() != nullptr) return static_cast<double>(*value->integer());
  if (value->real() == nullptr) return wrong_kind(key, "a number");
  return *value->real();
}

Result<bool> TomlTable::flag(std::string_view key, bool fallback) const {
  const TomlValue* value = get(key);
  if (value == nullptr) return fallback;
  if (value->flag() == nullptr) return wrong_kind(key, "true or false");
  return *value->flag();
}

Result<std::vector<std::string>> TomlTable::texts(std::string_view key) const {
  std::vector<std::string> list;
  const TomlValue* value = get(key);
  if (value == nullptr) return list;
  if (!value->is_list()) return wrong_kind(key, "a list of strings");
  for (const TomlValue& item : value->items) {
    if (item.text() == nullptr)
      return invalid(fmt::format("'{}' must be a list of strings", key), {}, where(item));
    list.push_back(*item.text());
  }
  return list;
}

Result<DType> TomlTable::dtype(std::string_view key, DType fallback) const {
  if (!has(key)) return fallback;
  LATHE_TRY(const std::string name, text(key, ""));
  return parse_dtype(name, where(key));
}

Result<Expr> TomlTable::expr(const TomlValue& value) const {
  if (value.integer() != nullptr) return Expr::constant(*value.integer());
  if (value.text() == nullptr)
    return invalid("expected an integer or an expression in quotes", "for example \"cdiv(M, 64)\"",
                   where(value));
  return Expr::parse(*value.text(), place(value.line, value.column + 1));
}

Result<std::optional<Expr>> TomlTable::optional_expr(std::string_view key) const {
  const TomlValue* value = get(key);
  if (value == nullptr) return std::optional<Expr>{};
  LATHE_TRY(Expr parsed, expr(*value));
  return std::optional<Expr>(std::move(parsed));
}

Result<std::vector<Expr>> TomlTable::exprs(std::string_view key, std::size_t most) const {
  std::vector<Expr> list;
  const TomlValue* value = get(key);
  if (value == nullptr) return list;
  if (!value->is_list() || value->items.size() > most)
    return wrong_kind(key,
                      fmt::format("a list of at most {} integers or expressions, such as [\"M\", 4]", most));
  for (const TomlValue& item : value->items) {
    LATHE_TRY(Expr parsed, expr(item));
    list.push_back(std::move(parsed));
  }
  return list;
}

Result<std::vector<TomlTable>> TomlTable::tables(std::string_view key, std::size_t most) const {
  std::vector<TomlTable> list;
  const TomlValue* value = get(key);
  if (value == nullptr) return list;
  if (!value->is_list()) return wrong_kind(key, fmt::format("a list of tables: [[{}]]", key));
  if (value->items.size() > most)
    return invalid(fmt::format("{} tables [[{}]]; at most {} are allowed", value->items.size(), key, most),
                   {}, where(key));
  for (const TomlValue& item : value->items) {
    if (!item.is_table()) return wrong_kind(key, fmt::format("a list of tables: [[{}]]", key));
    list.push_back(inner(item));
  }
  return list;
}

}  // namespace lathe
