#include "model/jinja/builtins.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/visible_text.h"
#include "model/jinja/syntax.h"

namespace lathe::jinja {
namespace {

constexpr std::int64_t kMostRange = 100000;

const std::string& text_of(const Value& value, std::string_view what) {
  if (value.text() == nullptr)
    throw Failure(fmt::format("{} is for texts, not for {}", what, value.type_name()));
  return *value.text();
}

std::uint32_t code_of(std::string_view character) { return next_code_point(character).first; }

/// str.isspace(), a little more than Unicode's white space.
bool is_space(std::string_view character) {
  const std::uint32_t code = code_of(character);
  return (code >= 9 && code <= 13) || (code >= 28 && code <= 32) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

std::string mapped(std::string_view text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  for (const std::string_view character : characters_of(text)) {
    const std::uint32_t code = code_of(character);
    utf8proc_uint8_t buffer[4];
    const auto bytes = utf8proc_encode_char(map(static_cast<utf8proc_int32_t>(code)), buffer);
    out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(bytes));
  }
  return out;
}
std::string upper(std::string_view text) { return mapped(text, utf8proc_toupper); }
std::string lower(std::string_view text) { return mapped(text, utf8proc_tolower); }

std::string capitalised(std::string_view text) {
  const auto characters = characters_of(text);
  if (characters.empty()) return {};
  return mapped(characters[0], utf8proc_totitle) + lower(text.substr(characters[0].size()));
}

bool is_letter(std::string_view character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_of(character)));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// A capital after whatever `begins_word` says, small letters else.
template <class BeginsWord>
std::string titled(std::string_view text, BeginsWord begins_word) {
  std::string out;
  bool first = true;
  for (const std::string_view character : characters_of(text)) {
    out += first ? mapped(character, utf8proc_totitle) : lower(character);
    first = begins_word(character);
  }
  return out;
}

/// Without characters of `set` (white space, if there is none) at the ends that are asked for.
std::string stripped(std::string_view text, const Value& set, bool left, bool right) {
  std::vector<std::string_view> drops;
  if (set.text() != nullptr) drops = characters_of(*set.text());
  const auto drop = [&](std::string_view character) {
    return set.text() == nullptr ? is_space(character)
                                 : std::find(drops.begin(), drops.end(), character) != drops.end();
  };
  const auto characters = characters_of(text);
  std::size_t begin = 0;
  std::size_t end = characters.size();
  while (left && begin < end && drop(characters[begin])) ++begin;
  while (right && end > begin && drop(characters[end - 1])) --end;
  if (begin == end) return {};
  return {characters[begin].data(),
          static_cast<std::size_t>(characters[end - 1].data() - characters[begin].data()) +
              characters[end - 1].size()};
}

Value split(std::string_view text, const Arguments& arguments, bool from_right) {
  List parts;
  const Value& separator = arguments.at(0, "sep");
  std::int64_t most = arguments.has(1, "maxsplit") ? arguments.at(1, "maxsplit").integer() : -1;
  if (separator.text() == nullptr) {
    if (from_right) throw Failure("rsplit() needs a separator");
    const auto characters = characters_of(text);
    const auto end = characters.end();
    for (auto word = std::find_if_not(characters.begin(), end, is_space); word != end;) {
      const auto space = most-- == 0 ? end : std::find_if(word, end, is_space);
      const char* last = space == end ? text.data() + text.size() : space->data();
      parts.push_back(Value::of(std::string(word->data(), last)));
      word = std::find_if_not(space, end, is_space);
    }
    return Value::of(std::move(parts));
  }
  const std::string& by = *separator.text();
  if (by.empty()) throw Failure("the separator is empty");
  while (most-- != 0) {
    const std::size_t found = from_right ? text.rfind(by) : text.find(by);
    if (found == text.npos) break;
    const std::string_view part = from_right ? text.substr(found + by.size()) : text.substr(0, found);
    parts.push_back(Value::of(std::string(part)));
    text = from_right ? text.substr(0, found) : text.substr(found + by.size());
  }
  parts.push_back(Value::of(std::string(text)));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return Value::of(std::move(parts));
}

std::string replaced(std::string_view text, const std::string& from, const std::string& to,
                     std::int64_t most) {
  std::string out;
  const auto append = [&](std::string_view part) {
    if (out.size() + part.size() > kMostTextBytes) throw Failure("a text becomes too long");
    out += part;
  };
  if (from.empty()) {
    for (const std::string_view character : characters_of(text)) {
      if (most-- != 0) append(to);
      append(character);
    }
    if (most != 0) append(to);
    return out;
  }
  while (most-- != 0) {
    const std::size_t found = text.find(from);
    if (found == text.npos) break;
    append(text.substr(0, found));
    append(to);
    text.remove_prefix(found + from.size());
  }
  append(text);
  return out;
}

bool starts_or_ends(std::string_view text, const Value& affix, bool starts) {
  const auto matches = [&](const Value& one) {
    const std::string& wanted = text_of(one, "startswith");
    return starts ? text.starts_with(wanted) : text.ends_with(wanted);
  };
  if (affix.list() != nullptr) return std::any_of(affix.list()->begin(), affix.list()->end(), matches);
  return matches(affix);
}

std::string joined(const List& parts, const std::string& by) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += by;
    out += parts[i].to_text();
    if (out.size() > kMostTextBytes) throw Failure("a text becomes too long");
  }
  return out;
}

std::int64_t characters_before(std::string_view text, std::size_t bytes) {
  return bytes == text.npos ? -1 : static_cast<std::int64_t>(characters_of(text.substr(0, bytes)).size());
}

bool all_characters(std::string_view text, bool (*is)(std::string_view)) {
  const auto characters = characters_of(text);
  return !characters.empty() && std::all_of(characters.begin(), characters.end(), is);
}

struct TextMethod {
  std::string_view name;
  Value (*call)(const std::string& self, const Arguments& arguments);
};
constexpr std::array<TextMethod, 22> kTextMethods = {{
    {"strip",
     [](const std::string& s, const Arguments& a) { return Value::of(stripped(s, a.at(0), true, true)); }},
    {"lstrip",
     [](const std::string& s, const Arguments& a) { return Value::of(stripped(s, a.at(0), true, false)); }},
    {"rstrip",
     [](const std::string& s, const Arguments& a) { return Value::of(stripped(s, a.at(0), false, true)); }},
    {"split", [](const std::string& s, const Arguments& a) { return split(s, a, false); }},
    {"rsplit", [](const std::string& s, const Arguments& a) { return split(s, a, true); }},
    {"upper", [](const std::string& s, const Arguments&) { return Value::of(upper(s)); }},
    {"lower", [](const std::string& s, const Arguments&) { return Value::of(lower(s)); }},
    {"capitalize", [](const std::string& s, const Arguments&) { return Value::of(capitalised(s)); }},
    {"title",
     [](const std::string& s, const Arguments&) {
       return Value::of(titled(s, [](std::string_view c) { return !is_letter(c); }));
     }},
    {"startswith",
     [](const std::string& s, const Arguments& a) { return Value::of(starts_or_ends(s, a.at(0), true)); }},
    {"endswith",
     [](const std::string& s, const Arguments& a) { return Value::of(starts_or_ends(s, a.at(0), false)); }},
    {"removeprefix",
     [](const std::string& s, const Arguments& a) {
       const std::string& prefix = text_of(a.at(0), "removeprefix");
       return Value::of(s.starts_with(prefix) ? s.substr(prefix.size()) : s);
     }},
    {"removesuffix",
     [](const std::string& s, const Arguments& a) {
       const std::string& suffix = text_of(a.at(0), "removesuffix");
       return Value::of(s.ends_with(suffix) ? s.substr(0, s.size() - suffix.size()) : s);
     }},
    {"replace",
     [](const std::string& s, const Arguments& a) {
       const std::int64_t most = a.has(2, "count") ? a.at(2, "count").integer() : -1;
       return Value::of(replaced(s, text_of(a.at(0), "replace"), text_of(a.at(1), "replace"), most));
     }},
    {"find",
     [](const std::string& s, const Arguments& a) {
       return Value::of(characters_before(s, s.find(text_of(a.at(0), "find"))));
     }},
    {"rfind",
     [](const std::string& s, const Arguments& a) {
       return Value::of(characters_before(s, s.rfind(text_of(a.at(0), "rfind"))));
     }},
    {"count",
     [](const std::string& s, const Arguments& a) {
       const std::string& wanted = text_of(a.at(0), "count");
       if (wanted.empty()) return Value::of(static_cast<std::int64_t>(characters_of(s).size()) + 1);
       std::int64_t count = 0;
       for (std::size_t at = s.find(wanted); at != s.npos; at = s.find(wanted, at + wanted.size())) ++count;
       return Value::of(count);
     }},
    {"join",
     [](const std::string& s, const Arguments& a) { return Value::of(joined(elements_of(a.at(0)), s)); }},
    {"isspace",
     [](const std::string& s, const Arguments&) { return Value::of(all_characters(s, is_space)); }},
    {"isalpha",
     [](const std::string& s, const Arguments&) { return Value::of(all_characters(s, is_letter)); }},
    {"isdigit",
     [](const std::string& s, const Arguments&) {
       return Value::of(all_characters(s, [](std::string_view c) { return c[0] >= '0' && c[0] <= '9'; }));
     }},
    {"splitlines",
     [](const std::string& s, const Arguments&) {
       List lines;
       for (std::size_t at = 0; at < s.size();) {
         const std::size_t end = std::min(s.find_first_of("\r\n", at), s.size());
         lines.push_back(Value::of(s.substr(at, end - at)));
         at = end + (s.compare(end, 2, "\r\n") == 0 ? 2 : 1);
       }
       return Value::of(std::move(lines));
     }},
}};

Value pairs_of(const Value& value) {
  List pairs;
  if (value.is_undefined()) return Value::of(std::move(pairs));
  if (value.dict() == nullptr) throw Failure(fmt::format("a {} has no items", value.type_name()));
  for (const auto& [key, element] : *value.dict()) pairs.push_back(Value::of(List{key, element}));
  return Value::of(std::move(pairs));
}

struct DictMethod {
  std::string_view name;
  Value (*call)(const Value& self, const Arguments& arguments);
};
constexpr std::array<DictMethod, 4> kDictMethods = {{
    {"items", [](const Value& self, const Arguments&) { return pairs_of(self); }},
    {"keys", [](const Value& self, const Arguments&) { return Value::of(elements_of(self)); }},
    {"values",
     [](const Value& self, const Arguments&) {
       List values;
       for (const auto& [key, value] : *self.dict()) values.push_back(value);
       return Value::of(std::move(values));
     }},
    {"get",
     [](const Value& self, const Arguments& a) {
       const Value found = subscript(self, a.at(0));
       if (!found.is_undefined()) return found;
       return a.has(1) ? a.at(1) : Value::none();
     }},
}};

template <class Table>
auto find_row(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
}

template <class Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& row : table) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

Value range(const Arguments& a) {
  std::int64_t begin = 0;
  std::int64_t end = a.at(0).integer();
  std::int64_t step = 1;
  if (a.has(1)) {
    begin = end;
    end = a.at(1).integer();
  }
  if (a.has(2)) step = a.at(2).integer();
  if (step == 0) throw Failure("the step of range() is zero");
  List list;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<std::int64_t>(list.size()) >= kMostRange)
      throw Failure(fmt::format("range() has more than {} numbers", kMostRange));
    list.push_back(Value::of(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::of(std::move(list));
}

Value dict_of(const Arguments& a) {
  Dict dict;
  if (a.has(0)) {
    if (a.at(0).dict() == nullptr) throw Failure("dict() takes a dict and named values");
    dict = *a.at(0).dict();
  }
  for (const auto& [name, value] : a.named) {
    const auto old = std::find_if(dict.begin(), dict.end(), [&, &wanted = name](const auto& member) {
      return member.first.text() != nullptr && *member.first.text() == wanted;
    });
    if (old != dict.end()) {
      old->second = value;
    } else {
      dict.emplace_back(Value::of(name), value);
    }
  }
  return Value::of(std::move(dict));
}

Value make_namespace(const Arguments& a) {
  auto names = std::make_shared<Namespace>();
  const Value initial = dict_of(a);
  for (const auto& [name, value] : *initial.dict())
    if (name.text() != nullptr) names->members.emplace_back(*name.text(), value);
  return Value(Value::Data(std::move(names)));
}

struct Function {
  std::string_view name;
  Value (*call)(const Arguments& arguments);
};
constexpr std::array<Function, 4> kFunctions = {{
    {"raise_exception",
     [](const Arguments& a) -> Value {
       throw Failure("the template says: " + visible_line(a.at(0).to_text()));
     }},
    {"range", range},
    {"namespace", make_namespace},
    {"dict", dict_of},
}};

struct Test {
  std::string_view name;
  bool (*holds)(const Value& value, const Arguments& arguments);
};
constexpr std::array<Test, 27> kTests = {{
    {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
    {"string", [](const Value& v, const Arguments&) { return v.text() != nullptr; }},
    {"mapping", [](const Value& v, const Arguments&) { return v.dict() != nullptr; }},
    {"iterable",
     [](const Value& v, const Arguments&) { return v.text() || v.list() || v.dict() || v.is_undefined(); }},
    {"sequence",
     [](const Value& v, const Arguments&) { return v.text() || v.list() || v.dict() || v.is_undefined(); }},
    {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
    {"integer", [](const Value& v, const Arguments&) { return v.get<std::int64_t>() != nullptr; }},
    {"float", [](const Value& v, const Arguments&) { return v.get<double>() != nullptr; }},
    {"boolean", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr && v.truth(); }},
    {"false", [](const Value& v, const Arguments&) { return v.get<bool>() != nullptr && !v.truth(); }},
    {"callable", [](const Value& v, const Arguments&) { return v.get<Callable>() != nullptr; }},
    {"odd", [](const Value& v, const Arguments&) { return v.integer() % 2 != 0; }},
    {"even", [](const Value& v, const Arguments&) { return v.integer() % 2 == 0; }},
    {"divisibleby",
     [](const Value& v, const Arguments& a) {
       if (a.at(0).integer() == 0) throw Failure("division by zero");
       return a.at(0).integer() == -1 || v.integer() % a.at(0).integer() == 0;
     }},
    {"in", [](const Value& v, const Arguments& a) { return contains(a.at(0), v); }},
    {"eq", [](const Value& v, const Arguments& a) { return equal(v, a.at(0)); }},
    {"equalto", [](const Value& v, const Arguments& a) { return equal(v, a.at(0)); }},
    {"==", [](const Value& v, const Arguments& a) { return equal(v, a.at(0)); }},
    {"ne", [](const Value& v, const Arguments& a) { return !equal(v, a.at(0)); }},
    {"lt", [](const Value& v, const Arguments& a) { return less(v, a.at(0)); }},
    {"gt", [](const Value& v, const Arguments& a) { return less(a.at(0), v); }},
    {"le", [](const Value& v, const Arguments& a) { return !less(a.at(0), v); }},
    {"ge", [](const Value& v, const Arguments& a) { return !less(v, a.at(0)); }},
    {"sameas", [](const Value& v,
                  const Arguments& a) { return v.type_name() == a.at(0).type_name() && equal(v, a.at(0)); }},
}};

/// A dotted path, as `map` and `selectattr` take: "function.name".
Value attribute_path(Value value, std::string_view path) {
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    std::int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = read.ec == std::errc() && read.ptr == part.data() + part.size();
    value = subscript(value, is_index ? Value::of(index) : Value::of(std::string(part)));
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  return value;
}

Arguments after(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(
      rest.positional.begin(),
      rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, rest.positional.size())));
  return rest;
}

/// select, reject, selectattr and rejectattr.
Value chosen(const Value& value, const Arguments& a, bool by_attribute, bool wanted) {
  const std::size_t test_at = by_attribute ? 1 : 0;
  const Arguments operands = after(a, test_at + 1);
  List list;
  for (const Value& element : elements_of(value)) {
    const Value subject = by_attribute ? attribute_path(element, text_of(a.at(0), "selectattr")) : element;
    const bool holds =
        a.has(test_at) ? apply_test(text_of(a.at(test_at), "select"), subject, operands) : subject.truth();
    if (holds == wanted) list.push_back(element);
  }
  return Value::of(std::move(list));
}

Value map(const Value& value, const Arguments& a) {
  List list;
  const Value& path = a.at(99, "attribute");
  for (const Value& element : elements_of(value)) {
    if (path.text() == nullptr) {
      list.push_back(apply_filter(text_of(a.at(0), "map"), element, after(a, 1)));
      continue;
    }
    const Value found = attribute_path(element, *path.text());
    list.push_back(found.is_undefined() && a.has(99, "default") ? a.at(99, "default") : found);
  }
  return Value::of(std::move(list));
}

Value sorted(const Value& value, const Arguments& a) {
  List list = elements_of(value);
  const bool any_case = !a.at(1, "case_sensitive").truth();
  const Value& path = a.at(2, "attribute");
  const auto key = [&](const Value& element) {
    const Value found = path.text() != nullptr ? attribute_path(element, *path.text()) : element;
    return any_case && found.text() != nullptr ? Value::of(lower(*found.text())) : found;
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Value& x, const Value& y) { return less(key(x), key(y)); });
  if (a.at(0, "reverse").truth()) std::reverse(list.begin(), list.end());
  return Value::of(std::move(list));
}

Value unique(const Value& value) {
  List list;
  for (const Value& element : elements_of(value))
    if (std::none_of(list.begin(), list.end(), [&](const Value& other) { return equal(element, other); }))
      list.push_back(element);
  if (list.size() > 1000) throw Failure("unique is for up to 1000 different values");
  return Value::of(std::move(list));
}

Value length(const Value& value) {
  if (value.text() != nullptr)
    return Value::of(static_cast<std::int64_t>(characters_of(*value.text()).size()));
  if (value.list() != nullptr) return Value::of(static_cast<std::int64_t>(value.list()->size()));
  if (value.dict() != nullptr) return Value::of(static_cast<std::int64_t>(value.dict()->size()));
  if (value.is_undefined()) return Value::of(std::int64_t{0});
  throw Failure(fmt::format("a value of type {} has no length", value.type_name()));
}

Value extreme(const Value& value, bool largest) {
  const List list = elements_of(value);
  if (list.empty()) return Value::undefined("the extreme of nothing");
  return largest ? *std::max_element(list.begin(), list.end(), less)
                 : *std::min_element(list.begin(), list.end(), less);
}

Value to_number(const Value& value, const Arguments& a, bool real) {
  if (value.is_number() && real) return Value::of(value.number());
  if (const double* number = value.get<double>()) {
    if (!(std::fabs(*number) < 9e18)) throw Failure("the number is out of range");
    return Value::of(static_cast<std::int64_t>(*number));
  }
  if (value.is_number()) return Value::of(value.integer());
  const Value otherwise = a.has(0, "default") ? a.at(0, "default")
                          : real              ? Value::of(0.0)
                                              : Value::of(std::int64_t{0});
  if (value.text() == nullptr) return otherwise;
  const std::string text = stripped(*value.text(), Value(), true, true);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return otherwise;
  if (real) return Value::of(number);
  return to_number(Value::of(number), a, false);
}

Value indented(const std::string& text, const Arguments& a) {
  const Value& width = a.at(0, "width");
  if (!width.is_undefined() && width.text() == nullptr && (width.integer() < 0 || width.integer() > 1000))
    throw Failure("indent is between 0 and 1000");
  const std::string prefix =
      width.text() != nullptr
          ? *width.text()
          : std::string(width.is_undefined() ? 4 : static_cast<std::size_t>(width.integer()), ' ');
  const bool first = a.at(1, "first").truth();
  const bool blank = a.at(2, "blank").truth();
  std::string out = first && (blank || !text.empty()) ? prefix : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size() && (blank || text[i + 1] != '\n')) out += prefix;
    if (out.size() > kMostTextBytes) throw Failure("a text becomes too long");
  }
  return Value::of(std::move(out));
}

Value rounded(const Value& value, const Arguments& a) {
  const std::int64_t digits = a.has(0, "precision") ? a.at(0, "precision").integer() : 0;
  if (digits < 0 || digits > 15 || !value.is_number())
    throw Failure("round is for numbers, to 0 to 15 digits");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return Value::of(std::nearbyint(value.number() * scale) / scale);
}

struct Filter {
  std::string_view name;
  Value (*apply)(const Value& value, const Arguments& arguments);
};
constexpr std::array<Filter, 38> kFilters = {{
    {"trim",
     [](const Value& v, const Arguments& a) { return Value::of(stripped(v.to_text(), a.at(0, "chars"), true, true)); }},
    {"upper", [](const Value& v, const Arguments&) { return Value::of(upper(v.to_text())); }},
    {"lower", [](const Value& v, const Arguments&) { return Value::of(lower(v.to_text())); }},
    {"capitalize", [](const Value& v, const Arguments&) { return Value::of(capitalised(v.to_text())); }},
    {"title",
     [](const Value& v, const Arguments&) {
       return Value::of(titled(v.to_text(), [](std::string_view c) {
         return is_space(c) || std::string_view("-([{<").find(c) != std::string_view::npos;
       }));
     }},
    {"string", [](const Value& v, const Arguments&) { return Value::of(v.to_text()); }},
    {"safe", [](const Value& v, const Arguments&) { return v; }},
    {"length", [](const Value& v, const Arguments&) { return length(v); }},
    {"count", [](const Value& v, const Arguments&) { return length(v); }},
    {"first",
     [](const Value& v, const Arguments&) {
       const List list = elements_of(v);
       return list.empty() ? Value::undefined("the first of nothing") : list.front();
     }},
    {"last",
     [](const Value& v, const Arguments&) {
       const List list = elements_of(v);
       return list.empty() ? Value::undefined("the last of nothing") : list.back();
     }},
    {"list", [](const Value& v, const Arguments&) { return Value::of(elements_of(v)); }},
    {"items", [](const Value& v, const Arguments&) { return pairs_of(v); }},
    {"join",
     [](const Value& v, const Arguments& a) {
       const Value& path = a.at(1, "attribute");
       List list = elements_of(v);
       if (path.text() != nullptr)
         for (Value& element : list) element = attribute_path(element, *path.text());
       return Value::of(joined(list, a.has(0, "d") ? a.at(0, "d").to_text() : ""));
     }},
    {"replace",
     [](const Value& v, const Arguments& a) {
       const std::int64_t most = a.has(2, "count") ? a.at(2, "count").integer() : -1;
       return Value::of(replaced(v.to_text(), a.at(0, "old").to_text(), a.at(1, "new").to_text(), most));
     }},
    {"default",
     [](const Value& v, const Arguments& a) {
       const bool missing = v.is_undefined() || (a.at(1, "boolean").truth() && !v.truth());
       return !missing ? v : a.has(0, "default_value") ? a.at(0, "default_value") : Value::of(std::string());
     }},
    {"d", [](const Value& v, const Arguments& a) { return apply_filter("default", v, a); }},
    {"tojson",
     [](const Value& v, const Arguments& a) {
       const Value& indent = a.at(99, "indent");
       const std::int64_t width = indent.is_undefined() || indent.is_none() ? -1 : indent.integer();
       if (width > 100) throw Failure("the indent is more than 100");
       return Value::of(v.to_json(static_cast<int>(std::max<std::int64_t>(width, -1))));
     }},
    {"int", [](const Value& v, const Arguments& a) { return to_number(v, a, false); }},
    {"float", [](const Value& v, const Arguments& a) { return to_number(v, a, true); }},
    {"abs",
     [](const Value& v, const Arguments&) {
       if (const double* number = v.get<double>()) return Value::of(std::fabs(*number));
       if (v.integer() == INT64_MIN) throw Failure("the number is out of range");
       return Value::of(v.integer() < 0 ? -v.integer() : v.integer());
     }},
    {"round", rounded},
    {"select", [](const Value& v, const Arguments& a) { return chosen(v, a, false, true); }},
    {"reject", [](const Value& v, const Arguments& a) { return chosen(v, a, false, false); }},
    {"selectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, true); }},
    {"rejectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, false); }},
    {"map", map},
    {"sort", sorted},
    {"unique", [](const Value& v, const Arguments&) { return unique(v); }},
    {"min", [](const Value& v, const Arguments&) { return extreme(v, false); }},
    {"max", [](const Value& v, const Arguments&) { return extreme(v, true); }},
    {"sum",
     [](const Value& v, const Arguments&) {
       double real = 0;
       std::int64_t integer = 0;
       bool is_real = false;
       for (const Value& element : elements_of(v)) {
         real += element.number();
         is_real = is_real || element.get<double>() != nullptr;
         if (!is_real && __builtin_add_overflow(integer, element.integer(), &integer)) throw Failure("the sum is out of range");
       }
       return is_real ? Value::of(real) : Value::of(integer);
     }},
    {"reverse",
     [](const Value& v, const Arguments&) {
       List list = elements_of(v);
       std::reverse(list.begin(), list.end());
       return v.text() != nullptr ? Value::of(joined(list, "")) : Value::of(std::move(list));
     }},
    {"indent", [](const Value& v, const Arguments& a) { return indented(v.to_text(), a); }},
    {"dictsort", [](const Value& v, const Arguments&) { return sorted(pairs_of(v), {{}, {{"attribute", Value::of(std::string("0"))}}}); }},
    {"batch",
     [](const Value& v, const Arguments& a) {
       const std::int64_t size = a.at(0, "linecount").integer();
       if (size < 1) throw Failure("a batch has at least one element");
       List batches;
       List batch;
       for (const Value& element : elements_of(v)) {
         batch.push_back(element);
         if (static_cast<std::int64_t>(batch.size()) == size) batches.push_back(Value::of(std::exchange(batch, {})));
       }
       if (!batch.empty()) batches.push_back(Value::of(std::move(batch)));
       return Value::of(std::move(batches));
     }},
    {"attr", [](const Value& v, const Arguments& a) { return attribute(v, text_of(a.at(0), "attr")); }},
    {"wordcount", [](const Value& v, const Arguments&) { return length(split(v.to_text(), {}, false)); }},
}};

}  // namespace

const Value& Arguments::at(std::size_t place, std::string_view name) const {
  static const Value missing;
  if (place < positional.size()) return positional[place];
  const auto found =
      std::find_if(named.begin(), named.end(), [&](const auto& argument) { return argument.first == name; });
  return found == named.end() ? missing : found->second;
}

bool has_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return find_row(kTextMethods, name) != kTextMethods.end();
  return self.dict() != nullptr && find_row(kDictMethods, name) != kDictMethods.end();
}

Value call_method(const Value& self, std::string_view name, const Arguments& arguments) {
  if (self.text() != nullptr) return find_row(kTextMethods, name)->call(*self.text(), arguments);
  return find_row(kDictMethods, name)->call(self, arguments);
}

bool has_function(std::string_view name) { return find_row(kFunctions, name) != kFunctions.end(); }

Value call_function(std::string_view name, const Arguments& arguments) {
  return find_row(kFunctions, name)->call(arguments);
}

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto row = find_row(kFilters, name);
  if (row == kFilters.end())
    throw Failure(fmt::format("the filter '{}' is unknown; Lathe knows {}", name, names_in(kFilters)));
  return row->apply(value, arguments);
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto row = find_row(kTests, name);
  if (row == kTests.end())
    throw Failure(fmt::format("the test '{}' is unknown; Lathe knows {}", name, names_in(kTests)));
  return row->holds(value, arguments);
}

Value subscript(const Value& object, const Value& key) {
  if (const Dict* dict = object.dict()) {
    const auto found = std::find_if(dict->begin(), dict->end(),
                                    [&](const auto& member) { return equal(member.first, key); });
    return found == dict->end() ? Value::undefined(key.to_text()) : found->second;
  }
  if (key.text() != nullptr) return attribute(object, *key.text());
  if (object.is_undefined())
    throw Failure(fmt::format("'{}' is undefined", visible_line(object.get<Undefined>()->name)));
  if (object.list() != nullptr || object.text() != nullptr) {
    const auto pick = [&](std::int64_t size) -> std::int64_t {
      const std::int64_t index = key.integer();
      if (index < -size || index >= size) return -1;
      return index < 0 ? index + size : index;
    };
    if (object.list() != nullptr) {
      const std::int64_t index = pick(static_cast<std::int64_t>(object.list()->size()));
      if (index >= 0) return (*object.list())[static_cast<std::size_t>(index)];
    } else {
      const auto characters = characters_of(*object.text());
      const std::int64_t index = pick(static_cast<std::int64_t>(characters.size()));
      if (index >= 0) return Value::of(std::string(characters[static_cast<std::size_t>(index)]));
    }
  }
  return Value::undefined(key.to_text());
}

Value attribute(const Value& object, std::string_view name) {
  if (object.is_undefined())
    throw Failure(fmt::format("'{}' is undefined", visible_line(object.get<Undefined>()->name)));
  if (const Value* found = object.find(name)) return *found;
  if (const Namespace* names = object.names())
    for (const auto& [member, value] : names->members)
      if (member == name) return value;
  return Value::undefined(std::string(name));
}

bool contains(const Value& haystack, const Value& needle) {
  if (haystack.text() != nullptr)
    return haystack.text()->find(text_of(needle, "'in' with a text")) != std::string::npos;
  if (haystack.dict() != nullptr)
    return std::any_of(haystack.dict()->begin(), haystack.dict()->end(),
                       [&](const auto& member) { return equal(member.first, needle); });
  const List list = elements_of(haystack);
  return std::any_of(list.begin(), list.end(), [&](const Value& element) { return equal(element, needle); });
}

}  // namespace lathe::jinja
