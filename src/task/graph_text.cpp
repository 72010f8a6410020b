#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "task/raw_node.h"

namespace lathe {
namespace {

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
      if (!node.attrs.empty()) return invalid("inputs stand before attributes", {}, where);
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
    return fail("expected a number, true, false, a text in quotes or a list of integers");
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

  /// [1, 2] is a list of integers; with a text in it, such as ["K/2", 1], it is a list of expressions.
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

}  // namespace

Result<std::vector<RawNode>> parse_graph(std::string_view text, const SourcePos& where) {
  std::vector<RawNode> nodes;
  SourcePos start = where;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    LineParser line(text.substr(begin, end - begin), start);
    if (!line.blank()) {
      LATHE_TRY(RawNode node, line.run());
      nodes.push_back(std::move(node));
      if (nodes.size() > kMaxNodes) return invalid("more than 256 nodes", {}, start);
    }
    begin = end + 1;
    start.line += 1;
    start.column = 1;
  }
  return nodes;
}

}  // namespace lathe
