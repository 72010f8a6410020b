#include "task/attrs.h"

#include <cassert>

namespace lathe {
namespace {

template <class T>
const T* find_value(const std::map<std::string, AttrValue, std::less<>>& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

std::int64_t Attrs::integer(std::string_view name, std::int64_t fallback) const {
  const auto* value = find_value<std::int64_t>(values_, name);
  assert(value != nullptr || !has(name));
  return value != nullptr ? *value : fallback;
}

double Attrs::real(std::string_view name, double fallback) const {
  if (const auto* value = find_value<std::int64_t>(values_, name)) return static_cast<double>(*value);
  const auto* value = find_value<double>(values_, name);
  assert(value != nullptr || !has(name));
  return value != nullptr ? *value : fallback;
}

bool Attrs::flag(std::string_view name, bool fallback) const {
  const auto* value = find_value<bool>(values_, name);
  assert(value != nullptr || !has(name));
  return value != nullptr ? *value : fallback;
}

std::string Attrs::text(std::string_view name, std::string_view fallback) const {
  const auto* value = find_value<std::string>(values_, name);
  assert(value != nullptr || !has(name));
  return value != nullptr ? *value : std::string(fallback);
}

std::vector<std::int64_t> Attrs::integers(std::string_view name, std::vector<std::int64_t> fallback) const {
  if (const auto* value = find_value<std::int64_t>(values_, name)) return {*value};
  const auto* value = find_value<std::vector<std::int64_t>>(values_, name);
  assert(value != nullptr || !has(name));
  return value != nullptr ? *value : fallback;
}

Result<Expr> Attrs::expression(std::string_view name, const Expr& fallback) const {
  if (const auto* text = find_value<std::string>(values_, name)) return Expr::parse(*text);
  return has(name) ? Expr::constant(integer(name, 0)) : fallback;
}

Result<std::vector<Expr>> Attrs::expressions(std::string_view name, std::vector<Expr> fallback) const {
  if (!has(name)) return fallback;
  std::vector<Expr> result;
  if (const auto* texts = find_value<std::vector<std::string>>(values_, name)) {
    for (const std::string& text : *texts) {
      LATHE_TRY(Expr parsed, Expr::parse(text));
      result.push_back(std::move(parsed));
    }
  } else if (find_value<std::string>(values_, name) != nullptr) {
    LATHE_TRY(Expr parsed, expression(name, Expr()));
    result.push_back(std::move(parsed));
  } else {
    for (const std::int64_t value : integers(name, {})) result.push_back(Expr::constant(value));
  }
  return result;
}

Result<Attrs> Attrs::bind(const std::vector<AttrRule>& rules, const Dims& dims) const {
  Attrs bound = *this;
  for (const AttrRule& rule : rules) {
    if (!has(rule.name)) continue;
    const bool is_text = find_value<std::string>(values_, rule.name) != nullptr;
    if (rule.kind == AttrKind::kInteger || (rule.kind == AttrKind::kNumber && is_text)) {
      LATHE_TRY(const Expr parsed, expression(rule.name, Expr()));
      LATHE_TRY(const std::int64_t value, parsed.evaluate(dims));
      bound.set(std::string(rule.name), value);
    } else if (rule.kind == AttrKind::kIntegers) {
      LATHE_TRY(const std::vector<Expr> parsed, expressions(rule.name, {}));
      std::vector<std::int64_t> numbers;
      for (const Expr& expr : parsed) {
        LATHE_TRY(const std::int64_t value, expr.evaluate(dims));
        numbers.push_back(value);
      }
      bound.set(std::string(rule.name), std::move(numbers));
    }
  }
  return bound;
}

}  // namespace lathe
