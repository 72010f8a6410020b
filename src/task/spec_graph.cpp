#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "task/spec_parse.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxNodes = 512;

constexpr std::size_t kMaxArguments = 64;

/// Reads one line `out = op(in, ..., key = value)  # comment`.
class LineParser {
 public:
  LineParser(std::string_view line, const SourcePos& start) : line_(line), start_(start) {}

  bool blank() {
    skip_space();
    return at_ >= line_.size() || line_[at_] == '#';
  }

  Result<RawNode> run() {
    RawNode node;
    skip_space();
    node.where = here();
    LATHE_TRY(node.out, name("a name for the result"));
    LATHE_CHECK_OK(expect('='));
    LATHE_TRY(node.op, name("an op"));
    LATHE_CHECK_OK(expect('('));
    while (!accept(')')) {
      if (!node.in.empty() || !node.attrs.empty()) LATHE_CHECK_OK(expect(','));
      LATHE_CHECK_OK(argument(node));
    }
    if (!blank()) return fail("unexpected text after the node");
    return node;
  }

 private:
  SourcePos here() const { return {start_.file, start_.line, start_.column + static_cast<int>(at_)}; }

  Error fail(std::string message) const {
    return invalid(std::move(message), "a node is written: out = op(input, ..., attribute = value)", here());
  }

  void skip_space() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status expect(char c) {
    if (!accept(c)) return fail(fmt::format("expected '{}'", c));
    return Ok{};
  }

  static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  Result<std::string> name(std::string_view what) {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < line_.size() && in_name(line_[at_])) ++at_;
    if (at_ == begin) return fail(fmt::format("expected {}", what));
    return std::string(line_.substr(begin, at_ - begin));
  }

  Status argument(RawNode& node) {
    if (node.in.size() + node.attrs.size() >= kMaxArguments) return fail("more than 64 arguments");
    skip_space();
    const SourcePos where = here();
    LATHE_TRY(std::string word, name("an input or an attribute"));
    if (!accept('=')) {
      if (!node.attrs.empty()) return invalid("inputs must come before attributes", {}, where);
      node.in.push_back({std::move(word), where});
      return Ok{};
    }
    LATHE_TRY(AttrValue parsed, value());
    node.attrs.push_back({std::move(word), std::move(parsed), where});
    return Ok{};
  }

  Result<AttrValue> value() {
    if (accept('[')) return list();
    skip_space();
    if (at_quote()) return text();
    const std::size_t begin = at_;
    const auto ends = [](char c) { return c == ',' || c == ')' || c == ' ' || c == '\t' || c == '#'; };
    while (at_ < line_.size() && !ends(line_[at_])) ++at_;
    const std::string_view word = line_.substr(begin, at_ - begin);
    if (word == "true") return AttrValue(true);
    if (word == "false") return AttrValue(false);
    std::int64_t integer = 0;
    if (parse_whole(word, integer)) return AttrValue(integer);
    double real = 0;
    if (parse_whole(word, real)) return AttrValue(real);
    at_ = begin;
    return fail("expected a number, true, false, a string or a list of integers");
  }

  template <class Number>
  static bool parse_whole(std::string_view word, Number& number) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc{} && end == word.data() + word.size() && !word.empty();
  }

  Result<AttrValue> text() {
    const char quote = line_[at_++];
    const std::size_t end = line_.find(quote, at_);
    if (end == std::string_view::npos) return fail("the text has no closing quote");
    AttrValue content(std::in_place_type<std::string>, line_.substr(at_, end - at_));
    at_ = end + 1;
    return content;
  }

  bool at_quote() const { return at_ < line_.size() && (line_[at_] == '"' || line_[at_] == '\''); }

  /// [1, 2] is a list of integers; a string in it, as in ["K/2", 1], makes it a list of
  /// expressions.
  Result<AttrValue> list() {
    std::vector<std::string> items;
    bool quoted = false;
    while (!accept(']')) {
      if (!items.empty()) LATHE_CHECK_OK(expect(','));
      skip_space();
      if (at_quote()) {
        LATHE_TRY(AttrValue item, text());
        items.push_back(std::get<std::string>(std::move(item)));
        quoted = true;
        continue;
      }
      std::int64_t number = 0;
      const char* begin = line_.data() + at_;
      const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), number);
      if (error != std::errc{}) return fail("expected an integer or an expression in quotes");
      at_ += static_cast<std::size_t>(end - begin);
      items.push_back(std::to_string(number));
    }
    if (quoted) return AttrValue(std::move(items));
    std::vector<std::int64_t> numbers;
    for (const std::string& item : items) numbers.push_back(std::stoll(item));
    return AttrValue(std::move(numbers));
  }

  std::string_view line_;
  const SourcePos& start_;
  std::size_t at_ = 0;
};

/// A list of integers, or of expressions if any item is a string.
Result<AttrValue> attr_list(const TomlValue& list, const SourcePos& where) {
  std::vector<std::int64_t> numbers;
  std::vector<std::string> expressions;
  for (const TomlValue& item : list.items) {
    if (item.integer()) {
      numbers.push_back(*item.integer());
      expressions.push_back(std::to_string(numbers.back()));
    } else if (item.text()) {
      expressions.push_back(*item.text());
    } else {
      return invalid("an attribute's list must hold integers or expressions in quotes", {}, where);
    }
  }
  if (numbers.size() == expressions.size()) return AttrValue(std::move(numbers));
  return AttrValue(std::move(expressions));
}

Result<AttrValue> attr_value(const TomlValue& value, const SourcePos& where) {
  if (value.integer()) return AttrValue(*value.integer());
  if (value.real()) return AttrValue(*value.real());
  if (value.flag()) return AttrValue(*value.flag());
  if (value.text()) return AttrValue(*value.text());
  if (value.is_list()) return attr_list(value, where);
  return invalid("an attribute must be a number, true, false, a string or a list of integers", {}, where);
}

Result<RawNode> read_node(const TomlTable& table) {
  RawNode node;
  node.where = table.where();
  LATHE_TRY(node.out, table.required_text("out"));
  LATHE_TRY(node.op, table.required_text("op"));
  LATHE_TRY(std::vector<std::string> inputs, table.texts("in"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.in.push_back({std::move(inputs[i]), table.where(table.get("in")->items[i])});
  }
  for (const TomlValue& member : table.members()) {
    if (member.key == "out" || member.key == "op" || member.key == "in") continue;
    LATHE_TRY(AttrValue parsed, attr_value(member, table.where(member)));
    node.attrs.push_back({member.key, std::move(parsed), table.where(member)});
  }
  return node;
}

std::size_t offset_of_line(std::string_view text, int line) {
  std::size_t at = 0;
  for (int i = 1; i < line && at != std::string_view::npos; ++i) {
    const std::size_t newline = text.find('\n', at);
    at = newline == std::string_view::npos ? newline : newline + 1;
  }
  return at;
}

/// Where a TOML string's content starts in the file: after its quotes, and after the newline that a
/// multi-line string drops.
SourcePos content_start(std::string_view text, SourcePos quotes) {
  const std::size_t line_start = offset_of_line(text, quotes.line);
  if (line_start == std::string_view::npos) return quotes;
  const std::string_view rest = text.substr(std::min(text.size(), line_start + quotes.column - 1));
  const bool multi_line = rest.starts_with("\"\"\"") || rest.starts_with("'''");
  quotes.column += multi_line ? 3 : 1;
  if (multi_line && (rest.substr(3).starts_with("\n") || rest.substr(3).starts_with("\r\n"))) {
    quotes.line += 1;
    quotes.column = 1;
  }
  return quotes;
}

/// Parses lines `out = op(in, ..., key = value)`; `where` is the place of the first character.
Result<std::vector<RawNode>> parse_graph(std::string_view text, const SourcePos& where) {
  std::vector<RawNode> nodes;
  SourcePos start = where;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    LineParser line(text.substr(begin, end - begin), start);
    if (!line.blank()) {
      LATHE_TRY(RawNode node, line.run());
      nodes.push_back(std::move(node));
      if (nodes.size() > kMaxNodes)
        return invalid("more than " + std::to_string(kMaxNodes) + " nodes", {}, start);
    }
    begin = end + 1;
    start.line += 1;
    start.column = 1;
  }
  return nodes;
}

}  // namespace

Result<std::vector<RawNode>> read_nodes(const TomlTable& task, std::string_view task_text) {
  if (const TomlValue* graph = task.get("graph")) {
    if (task.has("node")) {
      return invalid("a task has either 'graph' or [[node]] tables", "drop one of them", task.where("node"));
    }
    LATHE_TRY(const std::string text, task.text("graph", ""));
    return parse_graph(text, content_start(task_text, task.where(*graph)));
  }
  LATHE_TRY(const std::vector<TomlTable> tables, task.tables("node", kMaxNodes));
  std::vector<RawNode> nodes;
  for (const TomlTable& table : tables) {
    LATHE_TRY(RawNode node, read_node(table));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace lathe
