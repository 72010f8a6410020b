#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/jinja/value.h"

namespace lathe::jinja {

/// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument of that place or name, or undefined.
  const Value& at(std::size_t place, std::string_view name = {}) const;
  bool has(std::size_t place, std::string_view name = {}) const { return !at(place, name).is_undefined(); }
};

/// Python's methods of str and dict, and Jinja's filters, tests and functions, as far as chat
/// templates use them. Nothing changes its operands. Unknown names, wrong types and missing
/// operands throw Failure; `map`, `select` and their like call apply_filter() and apply_test()
/// themselves.
bool has_method(const Value& self, std::string_view name);
Value call_method(const Value& self, std::string_view name, const Arguments& arguments);
bool has_function(std::string_view name);
Value call_function(std::string_view name, const Arguments& arguments);
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);

/// object[key] as templates mean it: an element, a member, or else undefined.
Value subscript(const Value& object, const Value& key);
/// object.name: a member of a dict or namespace; methods are looked up by the caller first.
Value attribute(const Value& object, std::string_view name);
/// Python's `needle in haystack`.
bool contains(const Value& haystack, const Value& needle);

}  // namespace lathe::jinja
