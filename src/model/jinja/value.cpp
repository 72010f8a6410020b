#include "model/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/visible_text.h"
#include "model/jinja/syntax.h"

namespace lathe::jinja {
namespace {

constexpr int kMostDepth = 64;

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// repr() of a float: the shortest digits that give it back, with an exponent from 1e16 on and
/// below 1e-4.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == text.npos) text += ".0";
  return text;
}

std::string repr_of(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string_view character : characters_of(text)) {
    const auto first = static_cast<unsigned char>(character[0]);
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\r") {
      out += "\\r";
    } else if (character == "\t") {
      out += "\\t";
    } else if (character[0] == '\\' || character[0] == quote) {
      out += '\\';
      out += character;
    } else if (first < 0x20 || first == 0x7f) {
      out += fmt::format("\\x{:02x}", first);
    } else {
      out += character;
    }
  }
  return out + quote;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string json_key(const Value& key) {
  if (key.text() != nullptr) return json_string(*key.text());
  if (key.list() || key.dict()) throw Failure("keys of a JSON object are texts or numbers");
  return json_string(key.to_json(-1));
}

void write_json(const Value& value, int indent, int level, std::string& out) {
  const auto new_line = [&](int at) {
    if (indent >= 0)
      out += '\n' + std::string(static_cast<std::size_t>(indent) * static_cast<std::size_t>(at), ' ');
  };
  const char* comma = indent >= 0 ? "," : ", ";
  if (const List* list = value.list()) {
    if (list->empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += comma;
      new_line(level + 1);
      write_json((*list)[i], indent, level + 1, out);
    }
    new_line(level);
    out += ']';
  } else if (const Dict* dict = value.dict()) {
    if (dict->empty()) {
      out += "{}";
      return;
    }
    out += '{';
    for (std::size_t i = 0; i < dict->size(); ++i) {
      if (i > 0) out += comma;
      new_line(level + 1);
      out += json_key((*dict)[i].first) + ": ";
      write_json((*dict)[i].second, indent, level + 1, out);
    }
    new_line(level);
    out += '}';
  } else if (value.text() != nullptr) {
    out += json_string(*value.text());
  } else if (const bool* truth = value.get<bool>()) {
    out += *truth ? "true" : "false";
  } else if (value.is_none()) {
    out += "null";
  } else if (const double* number = value.get<double>()) {
    out += std::isnan(*number)   ? "NaN"
           : std::isinf(*number) ? (*number > 0 ? "Infinity" : "-Infinity")
                                 : float_text(*number);
  } else if (value.is_number()) {
    out += value.to_text();
  } else {
    throw Failure(fmt::format("a value of type {} has no JSON", value.type_name()));
  }
}

constexpr std::uint64_t kMostWeight = std::uint64_t{1} << 60;

/// Depth and weight of a container, of its elements'.
struct Measure {
  int depth = 0;
  std::uint64_t weight = 1;

  void add(const Value& element) {
    if (element.names() != nullptr) throw Failure("a namespace cannot be put into another value");
    depth = std::max(depth, element.depth());
    weight = std::min(kMostWeight, weight + element.weight());
    if (depth >= kMostDepth) throw Failure("a value is nested too deeply");
  }
};

Value from_json(const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMostDepth) throw Failure("a variable is nested too deeply");
  switch (json.type()) {
    case Type::boolean:
      return Value::of(json.get<bool>());
    case Type::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) throw Failure("an integer has more than 63 bits");
      return Value::of(json.get<std::int64_t>());
    case Type::number_integer:
      return Value::of(json.get<std::int64_t>());
    case Type::number_float:
      return Value::of(json.get<double>());
    case Type::string:
      return Value::of(json.get<std::string>());
    case Type::array: {
      List list;
      for (const auto& element : json) list.push_back(from_json(element, depth + 1));
      return Value::of(std::move(list));
    }
    case Type::object: {
      Dict dict;
      for (const auto& [key, element] : json.items())
        dict.emplace_back(Value::of(key), from_json(element, depth + 1));
      return Value::of(std::move(dict));
    }
    default:
      return Value::none();
  }
}

}  // namespace

Value Value::of(List list) {
  Measure measure;
  for (const Value& element : list) measure.add(element);
  return Value(
      Data(std::make_shared<const ListNode>(ListNode{std::move(list), measure.depth + 1, measure.weight})));
}

Value Value::of(Dict dict) {
  Measure measure;
  for (const auto& [key, element] : dict) {
    measure.add(key);
    measure.add(element);
  }
  return Value(
      Data(std::make_shared<const DictNode>(DictNode{std::move(dict), measure.depth + 1, measure.weight})));
}

Value Value::of(const nlohmann::ordered_json& json) { return from_json(json, 0); }

const List* Value::list() const {
  const auto* node = get<std::shared_ptr<const ListNode>>();
  return node == nullptr ? nullptr : &(*node)->elements;
}

const Dict* Value::dict() const {
  const auto* node = get<std::shared_ptr<const DictNode>>();
  return node == nullptr ? nullptr : &(*node)->members;
}

int Value::depth() const {
  if (const auto* node = get<std::shared_ptr<const ListNode>>()) return (*node)->depth;
  if (const auto* node = get<std::shared_ptr<const DictNode>>()) return (*node)->depth;
  const Callable* callable = get<Callable>();
  return callable != nullptr && callable->self ? callable->self->depth() + 1 : 0;
}

std::uint64_t Value::weight() const {
  if (const auto* node = get<std::shared_ptr<const ListNode>>()) return (*node)->weight;
  if (const auto* node = get<std::shared_ptr<const DictNode>>()) return (*node)->weight;
  if (text() != nullptr) return 1 + text()->size() / 8;
  const Callable* callable = get<Callable>();
  return callable != nullptr && callable->self ? callable->self->weight() : 1;
}

double Value::number() const {
  if (const double* value = get<double>()) return *value;
  return static_cast<double>(integer());
}

std::int64_t Value::integer() const {
  if (const std::int64_t* value = get<std::int64_t>()) return *value;
  if (const bool* value = get<bool>()) return *value ? 1 : 0;
  throw Failure(fmt::format("an integer is needed here, not {}", type_name()));
}

bool Value::truth() const {
  return std::visit(Overloaded{
                        [](const Undefined&) { return false; },
                        [](const None&) { return false; },
                        [](bool value) { return value; },
                        [](std::int64_t value) { return value != 0; },
                        [](double value) { return value != 0; },
                        [](const std::string& value) { return !value.empty(); },
                        [](const std::shared_ptr<const ListNode>& value) { return !value->elements.empty(); },
                        [](const std::shared_ptr<const DictNode>& value) { return !value->members.empty(); },
                        [](const auto&) { return true; },
                    },
                    data_);
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "None", "bool", "int",       "float",
                                         "str",       "list", "dict", "Namespace", "function"};
  return kNames[data_.index()];
}

std::string Value::to_text() const {
  if (text() != nullptr) return *text();
  return to_repr();
}

std::string Value::to_repr() const {
  return std::visit(
      Overloaded{
          [](const Undefined&) { return std::string(); },
          [](const None&) { return std::string("None"); },
          [](bool value) { return std::string(value ? "True" : "False"); },
          [](std::int64_t value) { return std::to_string(value); },
          [](double value) { return float_text(value); },
          [](const std::string& value) { return repr_of(value); },
          [](const std::shared_ptr<const ListNode>& value) {
            std::string out = "[";
            for (const Value& element : value->elements)
              out += (out.size() > 1 ? ", " : "") + element.to_repr();
            return out + "]";
          },
          [](const std::shared_ptr<const DictNode>& value) {
            std::string out = "{";
            for (const auto& [key, element] : value->members)
              out += (out.size() > 1 ? ", " : "") + key.to_repr() + ": " + element.to_repr();
            return out + "}";
          },
          [](const std::shared_ptr<Namespace>&) -> std::string {
            throw Failure("a namespace cannot be written");
          },
          [](const Callable& value) -> std::string {
            throw Failure(fmt::format("the function '{}' cannot be written: call it", value.name));
          },
      },
      data_);
}

std::string Value::to_json(int indent) const {
  std::string out;
  write_json(*this, indent, 0, out);
  return out;
}

const Value* Value::find(std::string_view key) const {
  const Dict* members = dict();
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(), [&](const auto& member) {
    return member.first.text() != nullptr && *member.first.text() == key;
  });
  return found == members->end() ? nullptr : &found->second;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.get<double>() || b.get<double>()) return a.number() == b.number();
    return a.integer() == b.integer();
  }
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list())
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), equal);
  if (a.dict() && b.dict()) {
    const auto has = [&](const auto& member) {
      return std::any_of(b.dict()->begin(), b.dict()->end(), [&](const auto& other) {
        return equal(member.first, other.first) && equal(member.second, other.second);
      });
    };
    return a.dict()->size() == b.dict()->size() && std::all_of(a.dict()->begin(), a.dict()->end(), has);
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.get<double>() || b.get<double>()) return a.number() < b.number();
    return a.integer() < b.integer();
  }
  if (a.text() && b.text()) return *a.text() < *b.text();
  throw Failure(fmt::format("{} and {} have no order", a.type_name(), b.type_name()));
}

List elements_of(const Value& value) {
  if (value.list() != nullptr) return *value.list();
  List list;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, element] : *dict) list.push_back(key);
  } else if (value.text() != nullptr) {
    for (const std::string_view character : characters_of(*value.text()))
      list.push_back(Value::of(std::string(character)));
  } else if (!value.is_undefined()) {
    throw Failure(fmt::format("a value of type {} is not iterable", value.type_name()));
  }
  return list;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const std::size_t bytes = next_code_point(text).second;
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

}  // namespace lathe::jinja
