#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/visible_text.h"
#include "model/jinja/syntax.h"

namespace lathe::jinja {
namespace {

constexpr int kMostNesting = 100;  // of blocks and of expressions

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Token {
  enum class Kind : std::uint8_t {
    kData,
    kOutputBegin,
    kOutputEnd,
    kTagBegin,
    kTagEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kSymbol,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;
  Place place;
};

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
            static_cast<char>(0x80 | (code & 0x3f))};
  } else {
    out += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3f)),
            static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
  }
}

/// Splits a template into text, tags and the tokens within them. White space around tags is trimmed
/// as with trim_blocks and lstrip_blocks.
class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      data();
      if (at_ < source_.size()) tag();
    }
    add(Token::Kind::kEnd, {}, at_);
    return std::move(tokens_);
  }

 private:
  Place place_of(std::size_t at) {
    for (; placed_ < at; ++placed_) {
      if (source_[placed_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
    return place_;
  }

  void add(Token::Kind kind, std::string text, std::size_t at) {
    tokens_.push_back({kind, std::move(text), place_of(at)});
  }
  bool starts(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }

  void data() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && !starts("{{") && !starts("{%") && !starts("{#")) ++at_;
    std::string_view text = std::string_view(source_).substr(begin, at_ - begin);
    const char sign = at_ + 2 < source_.size() ? source_[at_ + 2] : '\0';
    if (at_ < source_.size() && sign == '-') {
      while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    } else if (at_ < source_.size() && sign != '+' && !starts("{{")) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == text.npos ? 0 : newline + 1;
      const bool whole_line = newline != text.npos || begins_line_;
      if (whole_line && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), is_blank))
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Token::Kind::kData, std::string(text), begin);
  }

  void tag() {
    const std::size_t begin = at_;
    if (starts("{#")) {
      const std::size_t end = source_.find("#}", at_ + 2);
      if (end == source_.npos) throw Failure("a comment has no end", place_of(begin));
      const bool trims = source_[end - 1] == '-' && end > begin + 2;
      at_ = end + 2;
      return after_tag(trims, source_[end - 1] != '+');
    }
    const bool is_output = starts("{{");
    const std::string_view end = is_output ? "}}" : "%}";
    at_ += 2;
    add(is_output ? Token::Kind::kOutputBegin : Token::Kind::kTagBegin, {}, begin);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    for (;;) {
      while (at_ < source_.size() && is_blank(source_[at_])) ++at_;
      if (at_ >= source_.size()) throw Failure("a tag has no end", place_of(begin));
      const bool trims = source_[at_] == '-';
      const bool keeps = source_[at_] == '+';
      const std::size_t sign = trims || keeps ? 1 : 0;
      if (braces_ == 0 && std::string_view(source_).substr(at_ + sign).starts_with(end) &&
          (!keeps || !is_output)) {
        add(is_output ? Token::Kind::kOutputEnd : Token::Kind::kTagEnd, {}, at_);
        at_ += sign + 2;
        return after_tag(trims, !is_output && !keeps);
      }
      token();
    }
  }

  void after_tag(bool trims, bool drops_newline) {
    const std::size_t begin = at_;
    if (trims) {
      while (at_ < source_.size() && is_blank(source_[at_])) ++at_;
    } else if (drops_newline && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    begins_line_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void token() {
    const std::size_t begin = at_;
    const char c = source_[at_];
    if (c == '\'' || c == '"') return string(c);
    if (is_digit(c)) return number();
    if (is_word(c)) {
      while (at_ < source_.size() && is_word(source_[at_])) ++at_;
      return add(Token::Kind::kName, source_.substr(begin, at_ - begin), begin);
    }
    for (const std::string_view symbol :
         {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "(",
          ")",  "[",  "]",  "{",  "}",  ",",  ":", ".", "|", "=", "<", ">"}) {
      if (!starts(symbol)) continue;
      if (symbol == "{" || symbol == "(" || symbol == "[") ++braces_;
      if (symbol == "}" || symbol == ")" || symbol == "]") --braces_;
      if (braces_ < 0) throw Failure(fmt::format("'{}' closes nothing", symbol), place_of(begin));
      at_ += symbol.size();
      return add(Token::Kind::kSymbol, std::string(symbol), begin);
    }
    throw Failure(fmt::format("'{}' has no meaning here", visible_line(std::string(1, c))), place_of(begin));
  }

  void number() {
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) ++at_;
    };
    digits();
    bool is_float = false;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      is_float = true;
      ++at_;
      digits();
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      std::size_t exponent = at_ + 1;
      if (exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        at_ = exponent;
        digits();
      }
    }
    std::string text = source_.substr(begin, at_ - begin);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    add(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text), begin);
  }

  void string(char quote) {
    const std::size_t begin = at_++;
    std::string text;
    for (; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] != '\\' || at_ + 1 >= source_.size()) {
        text += source_[at_];
        continue;
      }
      escape(text);
    }
    if (at_ >= source_.size()) throw Failure("a text has no closing quote", place_of(begin));
    ++at_;
    add(Token::Kind::kString, std::move(text), begin);
  }

  /// Python's escapes; at_ is left on the last character.
  void escape(std::string& text) {
    static constexpr std::string_view kFrom = "ntrabfv0\\'\"";
    static constexpr std::string_view kTo{"\n\t\r\a\b\f\v\0\\'\"", 11};
    const char c = source_[++at_];
    if (c == '\n') return;
    if (const std::size_t known = kFrom.find(c); known != kFrom.npos) {
      text += kTo[known];
      return;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      text += {'\\', c};
      return;
    }
    std::uint32_t code = 0;
    const char* first = source_.data() + at_ + 1;
    const bool enough = source_.size() - at_ - 1 >= digits;
    const auto read = std::from_chars(first, first + (enough ? digits : 0), code, 16);
    if (!enough || read.ptr != first + digits || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw Failure("an escape names no character", place_of(at_));
    append_utf8(text, code);
    at_ += digits;
  }

  std::string source_;
  std::size_t at_ = 0;
  std::size_t placed_ = 0;
  Place place_;
  bool begins_line_ = true;
  int braces_ = 0;
  std::vector<Token> tokens_;
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block run() {
    Block block = statements({});
    return block;
  }

 private:
  using Kind = Token::Kind;

  /// Counts how deep the parser has descended.
  struct Descent {
    explicit Descent(Parser& of) : parser(of) {
      if (++parser.depth_ > kMostNesting)
        throw Failure("the template is nested too deeply", parser.here().place);
    }
    ~Descent() { --parser.depth_; }
    Parser& parser;
  };

  const Token& here() const { return tokens_[at_]; }
  const Token& ahead(std::size_t by) const { return tokens_[std::min(at_ + by, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool is(Kind kind, std::string_view text) const { return here().kind == kind && here().text == text; }
  bool is_symbol(std::string_view text) const { return is(Kind::kSymbol, text); }
  bool is_name(std::string_view text) const { return is(Kind::kName, text); }
  bool take_symbol(std::string_view text) { return is_symbol(text) && (take(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (take(), true); }

  [[noreturn]] void wanted(std::string_view what) const {
    static constexpr std::string_view kKinds[] = {
        "text",     "'{{'",     "the tag's end '}}'", "'{%'", "the tag's end '%}'", "a name",
        "a string", "a number", "a number",           "",     "the template's end"};
    const std::string_view found = here().kind == Kind::kSymbol || here().kind == Kind::kName
                                       ? std::string_view(here().text)
                                       : kKinds[static_cast<std::size_t>(here().kind)];
    throw Failure(fmt::format("{} is wanted here, not {}", what, visible_line(found.substr(0, 60))),
                  here().place);
  }
  void need_symbol(std::string_view text) {
    if (!take_symbol(text)) wanted(fmt::format("'{}'", text));
  }
  std::string need_name() {
    if (here().kind != Kind::kName) wanted("a name");
    return take().text;
  }
  void end_tag() {
    if (here().kind != Kind::kTagEnd) wanted("the tag's end '%}'");
    take();
  }

  /// Up to a tag whose name is in `ends`, whose name is taken.
  Block statements(const std::set<std::string_view>& ends) {
    const Descent descent(*this);
    Block block;
    for (;;) {
      Statement statement;
      statement.place = here().place;
      operators_ = 0;
      switch (here().kind) {
        case Kind::kData:
          statement.text = take().text;
          block.push_back(std::move(statement));
          break;
        case Kind::kOutputBegin:
          take();
          statement.kind = Statement::Kind::kOutput;
          statement.value = tuple_expression();
          if (here().kind != Kind::kOutputEnd) wanted("the tag's end '}}'");
          take();
          block.push_back(std::move(statement));
          break;
        case Kind::kTagBegin: {
          take();
          if (here().kind == Kind::kName && ends.contains(here().text)) return block;
          statement.text = need_name();
          block.push_back(tag(std::move(statement)));
          break;
        }
        case Kind::kEnd:
          if (ends.empty()) return block;
          throw Failure(fmt::format("'{}' is missing at the template's end", *ends.rbegin()), here().place);
        default:
          wanted("text or a tag");
      }
    }
  }

  Statement tag(Statement statement) {
    const std::string name = std::move(statement.text);
    statement.text.clear();
    if (name == "if") return if_tag(std::move(statement));
    if (name == "for") return for_tag(std::move(statement));
    if (name == "set") return set_tag(std::move(statement));
    if (name == "macro") return macro_tag(std::move(statement));
    if (name == "generation") {  // marks for training what the assistant says
      statement.kind = Statement::Kind::kScope;
      end_tag();
      statement.body = statements({"endgeneration"});
      take();
      end_tag();
      return statement;
    }
    if ((name == "break" || name == "continue") && loops_ > 0) {
      statement.kind = name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
      end_tag();
      return statement;
    }
    throw Failure(
        fmt::format(
            "the tag '{}' is unknown here; Lathe knows if, for, set, macro, generation, and within a loop "
            "break and continue",
            visible_line(name.substr(0, 60))),
        statement.place);
  }

  Statement if_tag(Statement statement) {
    statement.kind = Statement::Kind::kIf;
    statement.value = expression();
    end_tag();
    statement.body = statements({"elif", "else", "endif"});
    const Place place = here().place;
    const std::string end = take().text;
    if (end == "elif") {
      const Descent descent(*this);
      Statement other;
      other.place = place;
      statement.otherwise.push_back(if_tag(std::move(other)));
      return statement;
    }
    end_tag();
    if (end == "else") {
      statement.otherwise = statements({"endif"});
      take();
      end_tag();
    }
    return statement;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool in_parentheses = take_symbol("(");
    do names.push_back(need_name());
    while (take_symbol(",") && here().kind == Kind::kName && !is_name("in"));
    if (in_parentheses) need_symbol(")");
    return names;
  }

  Statement for_tag(Statement statement) {
    statement.kind = Statement::Kind::kFor;
    statement.targets = targets();
    if (!take_name("in")) wanted("'in'");
    statement.value = tuple_expression(false);
    if (take_name("if")) statement.condition = expression();
    if (is_name("recursive")) throw Failure("recursive loops are not supported", here().place);
    end_tag();
    ++loops_;
    statement.body = statements({"else", "endfor"});
    --loops_;
    const std::string end = take().text;
    end_tag();
    if (end == "else") {
      statement.otherwise = statements({"endfor"});
      take();
      end_tag();
    }
    return statement;
  }

  Statement set_tag(Statement statement) {
    if (here().kind == Kind::kName && ahead(1).text == "." && ahead(1).kind == Kind::kSymbol) {
      statement.sets_attribute = true;
      statement.targets.push_back(need_name());
      take();
      statement.targets.push_back(need_name());
    } else {
      statement.targets = targets();
    }
    if (take_symbol("=")) {
      statement.kind = Statement::Kind::kSet;
      statement.value = tuple_expression();
      end_tag();
      return statement;
    }
    statement.kind = Statement::Kind::kSetBlock;
    if (is_symbol("|")) {
      auto body = std::make_unique<Expression>();
      body->kind = Expression::Kind::kName;
      body->place = here().place;
      body->text = "";  // the evaluator binds the body's text to it
      statement.value = filters(std::move(body));
    }
    end_tag();
    statement.body = statements({"endset"});
    take();
    end_tag();
    return statement;
  }

  Statement macro_tag(Statement statement) {
    statement.kind = Statement::Kind::kMacro;
    statement.text = need_name();
    need_symbol("(");
    while (!is_symbol(")")) {
      Argument parameter;
      parameter.name = need_name();
      if (take_symbol("=")) parameter.value = expression();
      statement.parameters.push_back(std::move(parameter));
      if (!take_symbol(",")) break;
    }
    need_symbol(")");
    end_tag();
    const int loops = std::exchange(loops_, 0);
    statement.body = statements({"endmacro"});
    loops_ = loops;
    take();
    end_tag();
    return statement;
  }

  ExpressionPtr make(Expression::Kind kind, Place place, std::string text = {}) const {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->place = place;
    node->text = std::move(text);
    return node;
  }

  /// Each operator nests its left side once more; chains are bounded too, for the tree is walked by
  /// recursion.
  ExpressionPtr binary(std::string text, Place place, ExpressionPtr left, ExpressionPtr right) {
    if (++operators_ > kMostOperators) throw Failure("an expression is too long", place);
    ExpressionPtr node = make(Expression::Kind::kBinary, place, std::move(text));
    node->parts.push_back(std::move(left));
    node->parts.push_back(std::move(right));
    return node;
  }

  ExpressionPtr tuple_expression(bool with_condition = true) {
    const Place place = here().place;
    ExpressionPtr first = with_condition ? expression() : or_expression();
    if (!is_symbol(",")) return first;
    ExpressionPtr tuple = make(Expression::Kind::kList, place);
    tuple->parts.push_back(std::move(first));
    while (take_symbol(",")) {
      if (here().kind == Kind::kTagEnd || here().kind == Kind::kOutputEnd) break;
      tuple->parts.push_back(expression());
    }
    return tuple;
  }

  ExpressionPtr expression() {
    const Descent descent(*this);
    ExpressionPtr value = or_expression();
    while (is_name("if")) {
      const Place place = take().place;
      if (++operators_ > kMostOperators) throw Failure("an expression is too long", place);
      ExpressionPtr node = make(Expression::Kind::kConditional, place);
      node->parts.push_back(or_expression());
      node->parts.push_back(std::move(value));
      node->parts.push_back(take_name("else") ? expression() : nullptr);
      value = std::move(node);
    }
    return value;
  }

  ExpressionPtr or_expression() {
    ExpressionPtr left = and_expression();
    while (is_name("or")) {
      const Place place = take().place;
      left = binary("or", place, std::move(left), and_expression());
    }
    return left;
  }

  ExpressionPtr and_expression() {
    ExpressionPtr left = not_expression();
    while (is_name("and")) {
      const Place place = take().place;
      left = binary("and", place, std::move(left), not_expression());
    }
    return left;
  }

  ExpressionPtr not_expression() {
    if (!is_name("not")) return comparison();
    const Descent descent(*this);
    ExpressionPtr node = make(Expression::Kind::kUnary, take().place, "not");
    node->parts.push_back(not_expression());
    return node;
  }

  std::optional<std::string> comparison_operator() {
    for (const std::string_view symbol : {"==", "!=", "<", ">", "<=", ">="})
      if (is_symbol(symbol)) return take().text;
    if (is_name("in")) return take().text;
    if (is_name("not") && ahead(1).kind == Kind::kName && ahead(1).text == "in") {
      take();
      take();
      return "not in";
    }
    return std::nullopt;
  }

  ExpressionPtr comparison() {
    ExpressionPtr left = sum();
    Place place = here().place;
    bool chained = false;
    while (auto operation = comparison_operator()) {
      if (chained) throw Failure("comparisons in a chain are not supported: write 'a < b and b < c'", place);
      chained = true;
      left = binary(*operation, place, std::move(left), sum());
      place = here().place;
    }
    return left;
  }

  template <class Operand>
  ExpressionPtr chain(std::initializer_list<std::string_view> symbols, Operand operand) {
    ExpressionPtr left = operand();
    for (;;) {
      const bool found = here().kind == Kind::kSymbol &&
                         std::find(symbols.begin(), symbols.end(), here().text) != symbols.end();
      if (!found) return left;
      Token symbol = take();
      left = binary(std::move(symbol.text), symbol.place, std::move(left), operand());
    }
  }

  ExpressionPtr sum() {
    return chain({"+", "-"}, [&] { return joined(); });
  }
  ExpressionPtr joined() {
    return chain({"~"}, [&] { return product(); });
  }
  ExpressionPtr product() {
    return chain({"*", "/", "//", "%"}, [&] { return power(); });
  }
  ExpressionPtr power() {
    return chain({"**"}, [&] { return unary(true); });
  }

  ExpressionPtr unary(bool with_filters) {
    const Descent descent(*this);
    ExpressionPtr node;
    if (is_symbol("-") || is_symbol("+")) {
      Token sign = take();
      node = make(Expression::Kind::kUnary, sign.place, std::move(sign.text));
      node->parts.push_back(unary(false));
    } else {
      node = postfix(primary());
    }
    return with_filters ? filters(std::move(node)) : std::move(node);
  }

  ExpressionPtr primary() {
    const Place place = here().place;
    switch (here().kind) {
      case Kind::kString: {
        ExpressionPtr node = make(Expression::Kind::kLiteral, place);
        std::string text;
        while (here().kind == Kind::kString) text += take().text;
        node->literal = Value::of(std::move(text));
        return node;
      }
      case Kind::kInteger:
      case Kind::kFloat:
        return number();
      case Kind::kName:
        return name();
      default:
        break;
    }
    if (take_symbol("(")) {
      if (is_symbol(")")) {
        take();
        return make(Expression::Kind::kList, place);
      }
      ExpressionPtr first = expression();
      if (is_symbol(",")) {
        ExpressionPtr tuple = make(Expression::Kind::kList, place);
        tuple->parts.push_back(std::move(first));
        while (take_symbol(",") && !is_symbol(")")) tuple->parts.push_back(expression());
        first = std::move(tuple);
      }
      need_symbol(")");
      return first;
    }
    if (take_symbol("[")) {
      ExpressionPtr list = make(Expression::Kind::kList, place);
      while (!is_symbol("]")) {
        list->parts.push_back(expression());
        if (!take_symbol(",")) break;
      }
      need_symbol("]");
      return list;
    }
    if (take_symbol("{")) {
      ExpressionPtr dict = make(Expression::Kind::kDict, place);
      while (!is_symbol("}")) {
        dict->parts.push_back(expression());
        need_symbol(":");
        dict->parts.push_back(expression());
        if (!take_symbol(",")) break;
      }
      need_symbol("}");
      return dict;
    }
    wanted("a value");
  }

  ExpressionPtr number() {
    const Token token = take();
    ExpressionPtr node = make(Expression::Kind::kLiteral, token.place);
    const char* end = token.text.data() + token.text.size();
    std::int64_t integer = 0;
    double real = 0;
    const auto read = token.kind == Kind::kInteger ? std::from_chars(token.text.data(), end, integer)
                                                   : std::from_chars(token.text.data(), end, real);
    if (read.ec != std::errc()) throw Failure("the number is out of range", token.place);
    node->literal = token.kind == Kind::kInteger ? Value::of(integer) : Value::of(real);
    return node;
  }

  ExpressionPtr name() {
    const Token token = take();
    ExpressionPtr node = make(Expression::Kind::kLiteral, token.place);
    if (token.text == "true" || token.text == "True") {
      node->literal = Value::of(true);
    } else if (token.text == "false" || token.text == "False") {
      node->literal = Value::of(false);
    } else if (token.text == "none" || token.text == "None") {
      node->literal = Value::none();
    } else {
      node->kind = Expression::Kind::kName;
      node->text = token.text;
    }
    return node;
  }

  ExpressionPtr wrap(Expression::Kind kind, Place place, ExpressionPtr inner, std::string text = {}) {
    if (++operators_ > kMostOperators) throw Failure("an expression is too long", place);
    ExpressionPtr node = make(kind, place, std::move(text));
    node->parts.push_back(std::move(inner));
    return node;
  }

  ExpressionPtr postfix(ExpressionPtr node) {
    for (;;) {
      const Place place = here().place;
      if (take_symbol(".")) {
        if (here().kind == Kind::kInteger) {
          node = wrap(Expression::Kind::kSubscript, place, std::move(node));
          node->parts.push_back(number());
        } else {
          node = wrap(Expression::Kind::kAttribute, place, std::move(node), need_name());
        }
      } else if (take_symbol("[")) {
        node = subscript(std::move(node), place);
      } else if (is_symbol("(")) {
        node = wrap(Expression::Kind::kCall, place, std::move(node));
        node->arguments = arguments();
      } else {
        return node;
      }
    }
  }

  ExpressionPtr subscript(ExpressionPtr object, Place place) {
    ExpressionPtr node = wrap(Expression::Kind::kSubscript, place, std::move(object));
    const auto bound = [&]() -> ExpressionPtr {
      return is_symbol(":") || is_symbol("]") ? nullptr : expression();
    };
    node->parts.push_back(bound());
    if (is_symbol(":")) {
      node->kind = Expression::Kind::kSlice;
      for (int i = 0; i < 2; ++i) node->parts.push_back(take_symbol(":") ? bound() : nullptr);
    } else if (node->parts[1] == nullptr) {
      wanted("an index");
    }
    need_symbol("]");
    return node;
  }

  std::vector<Argument> arguments() {
    std::vector<Argument> arguments;
    need_symbol("(");
    while (!is_symbol(")")) {
      Argument argument;
      if (here().kind == Kind::kName && ahead(1).kind == Kind::kSymbol && ahead(1).text == "=") {
        argument.name = take().text;
        take();
      } else if (!arguments.empty() && !arguments.back().name.empty()) {
        throw Failure("a positional argument follows a named one", here().place);
      }
      if (is_symbol("*") || is_symbol("**"))
        throw Failure("unpacked arguments are not supported", here().place);
      argument.value = expression();
      arguments.push_back(std::move(argument));
      if (!take_symbol(",")) break;
    }
    need_symbol(")");
    return arguments;
  }

  ExpressionPtr filters(ExpressionPtr node) {
    for (;;) {
      const Place place = here().place;
      if (take_symbol("|")) {
        node = wrap(Expression::Kind::kFilter, place, std::move(node), need_name());
        if (is_symbol("(")) node->arguments = arguments();
      } else if (is_name("is")) {
        take();
        node = test(std::move(node), place);
      } else if (is_symbol("(")) {
        node = wrap(Expression::Kind::kCall, place, std::move(node));
        node->arguments = arguments();
      } else {
        return node;
      }
    }
  }

  ExpressionPtr test(ExpressionPtr value, Place place) {
    const bool negated = take_name("not");
    ExpressionPtr node = wrap(Expression::Kind::kTest, place, std::move(value), need_name());
    const bool has_operand =
        here().kind == Kind::kString || here().kind == Kind::kInteger || here().kind == Kind::kFloat ||
        is_symbol("[") || is_symbol("{") ||
        (here().kind == Kind::kName && !is_name("else") && !is_name("or") && !is_name("and") &&
         !is_name("is") && !is_name("if") && !is_name("in") && !is_name("not"));
    if (is_symbol("(")) {
      node->arguments = arguments();
    } else if (has_operand) {
      Argument argument;
      argument.value = postfix(primary());
      node->arguments.push_back(std::move(argument));
    }
    return negated ? wrap(Expression::Kind::kUnary, place, std::move(node), "not") : std::move(node);
  }

  static constexpr int kMostOperators = 400;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  int operators_ = 0;
};

/// Line ends become "\n", and one at the very end is dropped, as Jinja does.
std::string normal_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace

Block parse(std::string_view source) { return Parser(Lexer(normal_lines(source)).run()).run(); }

}  // namespace lathe::jinja
