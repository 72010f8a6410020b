#include "model/jinja/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/visible_text.h"
#include "model/jinja/builtins.h"

namespace lathe::jinja {
namespace {

// A unit is about ten nanoseconds, so the bound is less than a second; thousands of long messages
// fit.
constexpr std::uint64_t kMostWork = std::uint64_t{1} << 24;
constexpr std::uint64_t kWorkOfNode = 16;
constexpr std::uint64_t kWorkOfTurn = 128;  // of a loop, with its scope and `loop`
constexpr int kMostCalls = 32;
constexpr std::int64_t kMostElements = 1 << 20;

using Scope = std::vector<std::pair<std::string, Value>>;

class Renderer {
 public:
  explicit Renderer(const Value& variables) {
    scopes_.emplace_back();
    for (const auto& [name, value] : *variables.dict()) scopes_[0].emplace_back(*name.text(), value);
  }

  std::string run(const Block& block) {
    std::string out;
    (void)statements(block, out);
    return out;
  }

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

  void work(std::uint64_t amount) {
    work_ += amount;
    if (work_ > kMostWork) throw Failure("the template takes too many steps");
  }

  static void append(std::string& out, std::string_view text) {
    if (out.size() + text.size() > kMostTextBytes) throw Failure("the text becomes longer than 64 MiB");
    out += text;
  }

  Value look_up(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      for (const auto& [known, value] : *scope)
        if (known == name) return value;
    if (has_function(name)) return Value(Value::Data(Callable{name, nullptr, nullptr}));
    return Value::undefined(name);
  }

  void assign(const std::string& name, Value value) {
    for (auto& [known, old] : scopes_.back()) {
      if (known != name) continue;
      old = std::move(value);
      return;
    }
    scopes_.back().emplace_back(name, std::move(value));
  }

  void assign(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) return assign(names[0], value);
    const List list = elements_of(value);
    if (list.size() != names.size())
      throw Failure(fmt::format("{} names cannot take {} values", names.size(), list.size()));
    for (std::size_t i = 0; i < names.size(); ++i) assign(names[i], list[i]);
  }

  Flow statements(const Block& block, std::string& out) {
    for (const Statement& statement : block) {
      try {
        work(kWorkOfNode);
        if (const Flow flow = execute(statement, out); flow != Flow::kNext) return flow;
      } catch (const Failure& failure) {
        if (failure.has_place) throw;
        throw Failure(failure.what(), statement.place);
      }
    }
    return Flow::kNext;
  }

  Flow execute(const Statement& statement, std::string& out) {
    switch (statement.kind) {
      case Statement::Kind::kText:
        append(out, statement.text);
        return Flow::kNext;
      case Statement::Kind::kOutput: {
        const Value value = evaluate(*statement.value);
        work(value.weight());
        append(out, value.to_text());
        return Flow::kNext;
      }
      case Statement::Kind::kIf:
        return statements(evaluate(*statement.value).truth() ? statement.body : statement.otherwise, out);
      case Statement::Kind::kFor:
        loop(statement, out);
        return Flow::kNext;
      case Statement::Kind::kSet:
        set(statement, evaluate(*statement.value));
        return Flow::kNext;
      case Statement::Kind::kSetBlock:
        set(statement, block_value(statement));
        return Flow::kNext;
      case Statement::Kind::kMacro:
        assign(statement.text, Value(Value::Data(Callable{statement.text, &statement, nullptr})));
        return Flow::kNext;
      case Statement::Kind::kScope:
        return statements(statement.body, out);
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void set(const Statement& statement, const Value& value) {
    if (!statement.sets_attribute) return assign(statement.targets, value);
    const Value object = look_up(statement.targets[0]);
    Namespace* names = object.names();
    if (names == nullptr) throw Failure(fmt::format("'{}' is no namespace", statement.targets[0]));
    if (value.names() != nullptr) throw Failure("a namespace cannot be put into another value");
    for (auto& [name, old] : names->members) {
      if (name != statement.targets[1]) continue;
      old = value;
      return;
    }
    names->members.emplace_back(statement.targets[1], value);
  }

  Value block_value(const Statement& statement) {
    std::string text;
    scopes_.emplace_back();
    (void)statements(statement.body, text);
    scopes_.pop_back();
    if (statement.value == nullptr) return Value::of(std::move(text));
    scopes_.emplace_back();
    assign("", Value::of(std::move(text)));  // the name of the filters' innermost operand
    Value value = evaluate(*statement.value);
    scopes_.pop_back();
    return value;
  }

  void loop(const Statement& statement, std::string& out) {
    const Value over = evaluate(*statement.value);
    work(over.weight());
    List list = elements_of(over);
    if (statement.condition != nullptr) {
      List kept;
      for (Value& element : list) {
        work(kWorkOfTurn);
        scopes_.emplace_back();
        assign(statement.targets, element);
        if (evaluate(*statement.condition).truth()) kept.push_back(std::move(element));
        scopes_.pop_back();
      }
      list = std::move(kept);
    }
    if (list.empty()) return (void)statements(statement.otherwise, out);
    ++loop_depth_;
    for (std::size_t i = 0; i < list.size(); ++i) {
      work(kWorkOfTurn);
      scopes_.emplace_back();
      assign("loop", loop_variable(list, i));
      assign(statement.targets, list[i]);
      const Flow flow = statements(statement.body, out);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    --loop_depth_;
  }

  Value loop_variable(const List& list, std::size_t i) const {
    const auto index = static_cast<std::int64_t>(i);
    const auto length = static_cast<std::int64_t>(list.size());
    auto names = std::make_shared<Namespace>();
    const auto add = [&](const char* name, Value value) {
      names->members.emplace_back(name, std::move(value));
    };
    add("index", Value::of(index + 1));
    add("index0", Value::of(index));
    add("first", Value::of(index == 0));
    add("last", Value::of(index + 1 == length));
    add("length", Value::of(length));
    add("revindex", Value::of(length - index));
    add("revindex0", Value::of(length - index - 1));
    add("depth", Value::of(std::int64_t{loop_depth_}));
    add("depth0", Value::of(std::int64_t{loop_depth_ - 1}));
    if (i > 0) add("previtem", list[i - 1]);
    if (i + 1 < list.size()) add("nextitem", list[i + 1]);
    return Value(Value::Data(std::move(names)));
  }

  Value evaluate(const Expression& expression) {
    try {
      work(kWorkOfNode);
      return value_of(expression);
    } catch (const Failure& failure) {
      if (failure.has_place) throw;
      throw Failure(failure.what(), expression.place);
    }
  }

  Value value_of(const Expression& e) {
    switch (e.kind) {
      case Expression::Kind::kLiteral:
        return e.literal;
      case Expression::Kind::kName:
        return look_up(e.text);
      case Expression::Kind::kList: {
        List list;
        for (const ExpressionPtr& part : e.parts) list.push_back(evaluate(*part));
        return Value::of(std::move(list));
      }
      case Expression::Kind::kDict:
        return dict(e);
      case Expression::Kind::kUnary:
        return unary(e.text, evaluate(*e.parts[0]));
      case Expression::Kind::kBinary:
        return binary(e);
      case Expression::Kind::kConditional:
        if (evaluate(*e.parts[0]).truth()) return evaluate(*e.parts[1]);
        return e.parts[2] == nullptr ? Value::undefined("the other value of an 'if'") : evaluate(*e.parts[2]);
      case Expression::Kind::kAttribute:
        return member(evaluate(*e.parts[0]), e.text);
      case Expression::Kind::kSubscript: {
        const Value object = evaluate(*e.parts[0]);
        const Value key = evaluate(*e.parts[1]);
        if (object.text() != nullptr || key.list() != nullptr || key.dict() != nullptr)
          work(object.weight() + key.weight());
        Value found = subscript(object, key);
        if (found.is_undefined() && key.text() != nullptr && has_method(object, *key.text()))
          return member(object, *key.text());
        return found;
      }
      case Expression::Kind::kSlice:
        return slice(e);
      case Expression::Kind::kCall:
        return call(e);
      case Expression::Kind::kFilter: {
        const Value value = evaluate(*e.parts[0]);
        const Arguments operands = arguments(e);
        work(value.weight());
        return apply_filter(e.text, value, operands);
      }
      case Expression::Kind::kTest: {
        const Value value = evaluate(*e.parts[0]);
        const Arguments operands = arguments(e);
        return Value::of(apply_test(e.text, value, operands));
      }
    }
    return {};
  }

  Value dict(const Expression& e) {
    Dict dict;
    for (std::size_t i = 0; i < e.parts.size(); i += 2) {
      Value key = evaluate(*e.parts[i]);
      Value value = evaluate(*e.parts[i + 1]);
      if (key.list() != nullptr || key.dict() != nullptr) throw Failure("a list or dict cannot be a key");
      work(dict.size());
      const auto old =
          std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return equal(entry.first, key); });
      if (old != dict.end()) {
        old->second = std::move(value);
      } else {
        dict.emplace_back(std::move(key), std::move(value));
      }
    }
    return Value::of(std::move(dict));
  }

  static Value unary(const std::string& sign, const Value& value) {
    if (sign == "not") return Value::of(!value.truth());
    if (const double* number = value.get<double>()) return Value::of(sign == "-" ? -*number : *number);
    std::int64_t result = value.integer();
    if (sign == "-" && __builtin_sub_overflow(std::int64_t{0}, result, &result))
      throw Failure("the number is out of range");
    return Value::of(result);
  }

  Value binary(const Expression& e) {
    const std::string& o = e.text;
    Value left = evaluate(*e.parts[0]);
    if (o == "and") return left.truth() ? evaluate(*e.parts[1]) : left;
    if (o == "or") return left.truth() ? left : evaluate(*e.parts[1]);
    const Value right = evaluate(*e.parts[1]);
    work(left.weight() + right.weight());
    if (o == "==") return Value::of(equal(left, right));
    if (o == "!=") return Value::of(!equal(left, right));
    if (o == "<") return Value::of(less(left, right));
    if (o == ">") return Value::of(less(right, left));
    if (o == "<=") return Value::of(!less(right, left));
    if (o == ">=") return Value::of(!less(left, right));
    if (o == "in") return Value::of(contains(right, left));
    if (o == "not in") return Value::of(!contains(right, left));
    if (o == "~") return text_sum(left.to_text(), right.to_text());
    return arithmetic(o, left, right);
  }

  static Value text_sum(std::string left, const std::string& right) {
    append(left, right);
    return Value::of(std::move(left));
  }

  static Value repeated(const Value& value, std::int64_t times) {
    times = std::max<std::int64_t>(times, 0);
    if (const std::string* text = value.text()) {
      if (!text->empty() && times > static_cast<std::int64_t>(kMostTextBytes / text->size()))
        throw Failure("the text becomes longer than 64 MiB");
      std::string out;
      for (std::int64_t i = 0; i < times && !text->empty(); ++i) out += *text;
      return Value::of(std::move(out));
    }
    const List& list = *value.list();
    if (!list.empty() && times > kMostElements / static_cast<std::int64_t>(list.size()))
      throw Failure("the list becomes too long");
    List out;
    for (std::int64_t i = 0; i < times && !list.empty(); ++i) out.insert(out.end(), list.begin(), list.end());
    return Value::of(std::move(out));
  }

  Value arithmetic(const std::string& o, const Value& left, const Value& right) {
    for (const Value* side : {&left, &right})
      if (const Undefined* missing = side->get<Undefined>())
        throw Failure(fmt::format("'{}' is undefined", visible_line(missing->name)));
    if (left.is_number() && right.is_number()) return of_numbers(o, left, right);
    if (o == "+" && left.text() && right.text()) return text_sum(*left.text(), *right.text());
    if (o == "+" && left.list() && right.list()) {
      List list = *left.list();
      list.insert(list.end(), right.list()->begin(), right.list()->end());
      return Value::of(std::move(list));
    }
    if (o == "*") {
      const bool swapped = right.text() != nullptr || right.list() != nullptr;
      const Value& series = swapped ? right : left;
      const Value& times = swapped ? left : right;
      if ((series.text() || series.list()) && times.get<std::int64_t>()) {
        const Value product = repeated(series, times.integer());
        work(product.weight());
        return product;
      }
    }
    throw Failure(fmt::format("'{}' is not for {} and {}", o, left.type_name(), right.type_name()));
  }

  static Value of_numbers(const std::string& o, const Value& left, const Value& right) {
    const bool divides = o == "/" || o == "//" || o == "%";
    if (divides && right.number() == 0) throw Failure("division by zero");
    if (left.get<double>() || right.get<double>() || o == "/") {
      const double a = left.number();
      const double b = right.number();
      if (o == "+") return Value::of(a + b);
      if (o == "-") return Value::of(a - b);
      if (o == "*") return Value::of(a * b);
      if (o == "/") return Value::of(a / b);
      if (o == "//") return Value::of(std::floor(a / b));
      if (o == "%") return Value::of(a - b * std::floor(a / b));
      return Value::of(std::pow(a, b));
    }
    const std::int64_t a = left.integer();
    const std::int64_t b = right.integer();
    std::int64_t result = 0;
    bool overflows = false;
    if (o == "+") {
      overflows = __builtin_add_overflow(a, b, &result);
    } else if (o == "-") {
      overflows = __builtin_sub_overflow(a, b, &result);
    } else if (o == "*") {
      overflows = __builtin_mul_overflow(a, b, &result);
    } else if (divides) {
      overflows = b == -1 && a == INT64_MIN;
      if (!overflows) {
        const std::int64_t rest = a % b;
        const bool down = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
        result = o == "%" ? rest + (down ? b : 0) : a / b - (down ? 1 : 0);
      }
    } else {
      if (b < 0) return Value::of(std::pow(static_cast<double>(a), static_cast<double>(b)));
      result = 1;
      for (std::int64_t i = 0; i < b && !overflows && result != 0 && (a != 1 || i == 0); ++i) {
        if (a == -1 && i == b % 2) break;
        overflows = __builtin_mul_overflow(result, a, &result);
      }
    }
    if (overflows) throw Failure("the number is out of range");
    return Value::of(result);
  }

  Value member(const Value& object, const std::string& name) {
    if (has_method(object, name))
      return Value(Value::Data(Callable{name, nullptr, std::make_shared<const Value>(object)}));
    return attribute(object, name);
  }

  Value slice(const Expression& e) {
    const Value object = evaluate(*e.parts[0]);
    work(object.weight());
    const bool is_text = object.text() != nullptr;
    if (!is_text && object.list() == nullptr)
      throw Failure(fmt::format("a {} cannot be sliced", object.type_name()));
    const List list = elements_of(object);
    const auto size = static_cast<std::int64_t>(list.size());
    const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
      if (e.parts[i] == nullptr) return std::nullopt;
      const Value value = evaluate(*e.parts[i]);
      if (value.is_none()) return std::nullopt;
      return value.integer();
    };
    const auto from = bound(1);
    const auto to = bound(2);
    const std::int64_t step = bound(3).value_or(1);
    if (step == 0) throw Failure("the step of a slice is zero");
    // As Python's slice.indices().
    const std::int64_t least = step > 0 ? 0 : -1;
    const std::int64_t most = step > 0 ? size : size - 1;
    const auto place = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
      if (!at) return otherwise;
      return std::clamp(*at < 0 ? *at + size : *at, least, most);
    };
    const std::int64_t begin = place(from, step > 0 ? least : most);
    const std::int64_t end = place(to, step > 0 ? most : least);
    List part;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
      part.push_back(list[static_cast<std::size_t>(i)]);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    if (!is_text) return Value::of(std::move(part));
    std::string text;
    for (const Value& character : part) text += *character.text();
    return Value::of(std::move(text));
  }

  Arguments arguments(const Expression& e) {
    Arguments result;
    for (const Argument& argument : e.arguments) {
      Value value = evaluate(*argument.value);
      work(value.weight());
      if (argument.name.empty()) {
        result.positional.push_back(std::move(value));
      } else {
        result.named.emplace_back(argument.name, std::move(value));
      }
    }
    return result;
  }

  Value call(const Expression& e) {
    const Value callee = evaluate(*e.parts[0]);
    const Callable* callable = callee.get<Callable>();
    if (const Undefined* missing = callee.get<Undefined>())
      throw Failure(fmt::format("the function '{}' is unknown", visible_line(missing->name)));
    if (callable == nullptr)
      throw Failure(fmt::format("a value of type {} cannot be called", callee.type_name()));
    const Arguments operands = arguments(e);
    if (callable->macro != nullptr) return call_macro(*callable->macro, operands);
    if (callable->self != nullptr) {
      work(callable->self->weight());
      return call_method(*callable->self, callable->name, operands);
    }
    Value value = call_function(callable->name, operands);
    work(value.weight());
    return value;
  }

  /// Sees what the template itself has set, not what its caller has.
  Value call_macro(const Statement& macro, const Arguments& operands) {
    if (++calls_ > kMostCalls)
      throw Failure(fmt::format("macros call each other more than {} deep", kMostCalls));
    std::vector<Scope> callers(std::make_move_iterator(scopes_.begin() + 1),
                               std::make_move_iterator(scopes_.end()));
    scopes_.resize(1);
    scopes_.emplace_back();
    const auto known = [&](const std::string& name) {
      return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                         [&](const auto& p) { return p.name == name; });
    };
    if (operands.positional.size() > macro.parameters.size())
      throw Failure(fmt::format("the macro '{}' takes {} arguments", macro.text, macro.parameters.size()));
    for (const auto& [name, value] : operands.named)
      if (!known(name)) throw Failure(fmt::format("the macro '{}' has no parameter '{}'", macro.text, name));
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const Argument& parameter = macro.parameters[i];
      Value value = operands.at(i, parameter.name);
      if (value.is_undefined())
        value = parameter.value ? evaluate(*parameter.value) : Value::undefined(parameter.name);
      assign(parameter.name, std::move(value));
    }
    std::string text;
    (void)statements(macro.body, text);
    scopes_.resize(1);
    std::move(callers.begin(), callers.end(), std::back_inserter(scopes_));
    --calls_;
    return Value::of(std::move(text));
  }

  std::vector<Scope> scopes_;
  std::uint64_t work_ = 0;
  int calls_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

std::string render(const Block& block, const Value& variables) { return Renderer(variables).run(block); }

}  // namespace lathe::jinja
