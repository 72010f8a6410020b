#include <cctype>
#include <charconv>

#include "task/expr_node.h"

namespace lathe {
namespace {

using Ptr = Expr::Node::Ptr;

constexpr std::size_t kMaxLength = 4096;
constexpr int kMaxDepth = 64;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }

/// Precedence climbing over untrusted text. Every recursion passes through `Nest`, which bounds the
/// stack.
class Parser {
 public:
  Parser(std::string_view text, const SourcePos& where) : text_(text), where_(where) {}

  Result<Ptr> run() {
    if (text_.size() > kMaxLength) return invalid("expression longer than 4096 characters", {}, where_);
    LATHE_TRY(Ptr node, select());
    skip_space();
    if (at_ < text_.size()) return fail("unexpected '" + std::string(1, text_[at_]) + "'");
    return node;
  }

 private:
  struct Nest {
    explicit Nest(int& depth) : depth_(depth) { ++depth_; }
    ~Nest() { --depth_; }
    int& depth_;
  };

  Error fail(std::string message) const {
    SourcePos where = where_;
    if (where.column > 0) where.column += static_cast<int>(at_);
    return invalid(std::move(message) + " at character " + std::to_string(at_ + 1) + " of \"" +
                       std::string(text_.substr(0, 80)) + "\"",
                   "expressions have integers, names, + - * / % << >> comparisons && || ! ?: and "
                   "cdiv, min, max, align",
                   where);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// The next token's binary operator, without consuming it; nullptr if it is none.
  const ExprOpInfo* peek_operator() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    for (const ExprOpInfo& op : kBinaryOps) {
      if (!op.is_function && rest.starts_with(op.spelling)) return &op;
    }
    return nullptr;
  }

  Result<Ptr> select() {
    const Nest nest(depth_);
    if (depth_ > kMaxDepth) return fail("expression nested more than 64 deep");
    LATHE_TRY(Ptr condition, binary(kSelectPrecedence + 1));
    if (!accept('?')) return condition;
    LATHE_TRY(Ptr if_true, select());
    if (!accept(':')) return fail("expected ':'");
    LATHE_TRY(Ptr if_false, select());
    return Expr::Node::select(std::move(condition), std::move(if_true), std::move(if_false));
  }

  Result<Ptr> binary(int min_precedence) {
    LATHE_TRY(Ptr left, unary());
    for (const ExprOpInfo* op = peek_operator(); op != nullptr && op->precedence >= min_precedence;
         op = peek_operator()) {
      at_ += op->spelling.size();
      LATHE_TRY(Ptr right, binary(op->precedence + 1));
      left = Expr::Node::binary(op->op, std::move(left), std::move(right));
    }
    return left;
  }

  Result<Ptr> unary() {
    const Nest nest(depth_);
    if (depth_ > kMaxDepth) return fail("expression nested more than 64 deep");
    if (accept('-')) {
      LATHE_TRY(Ptr operand, unary());
      return Expr::Node::unary(ExprOp::kNegate, std::move(operand));
    }
    if (accept('!')) {
      LATHE_TRY(Ptr operand, unary());
      return Expr::Node::unary(ExprOp::kNot, std::move(operand));
    }
    return primary();
  }

  Result<Ptr> primary() {
    if (accept('(')) {
      LATHE_TRY(Ptr inner, select());
      if (!accept(')')) return fail("expected ')'");
      return inner;
    }
    skip_space();
    if (at_ >= text_.size()) return fail("expression ends early");
    if (is_digit(text_[at_])) return number();
    if (is_name_start(text_[at_])) return name();
    return fail("unexpected '" + std::string(1, text_[at_]) + "'");
  }

  Result<Ptr> number() {
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc{}) return fail("integer too large");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.')) {
      return fail("malformed integer");
    }
    return Expr::Node::constant(value);
  }

  Result<Ptr> name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const ExprOpInfo* function = find_binary_op(word);
    if (!accept('(')) {
      if (function != nullptr) return fail("function " + std::string(word) + " needs two arguments");
      return std::make_shared<const Expr::Node>(
          Expr::Node{.op = ExprOp::kSymbol, .symbol = std::string(word)});
    }
    if (function == nullptr) return fail("unknown function " + std::string(word));
    LATHE_TRY(Ptr first, select());
    if (!accept(',')) return fail("expected ','");
    LATHE_TRY(Ptr second, select());
    if (!accept(')')) return fail("expected ')'");
    return Expr::Node::binary(function->op, std::move(first), std::move(second));
  }

  std::string_view text_;
  const SourcePos& where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Ptr> parse_expr(std::string_view text, const SourcePos& where) { return Parser(text, where).run(); }

}  // namespace lathe
