#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

/// `json` as a whole number of type T. Unlike get<T>(), whose conversion of a large float or
/// integer is undefined or wraps, it throws a nlohmann::json::exception, so read untrusted numbers
/// with it inside the same handler as at() and get().
template <class T>
T json_integer(const nlohmann::json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<nlohmann::json::number_unsigned_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<nlohmann::json::number_integer_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  throw nlohmann::json::other_error::create(
      502, "no whole number in range: " + (json.is_number() ? json.dump() : json.type_name()), &json);
}

template <class T>
std::vector<T> json_integers(const nlohmann::json& json) {
  if (!json.is_array()) throw nlohmann::json::other_error::create(502, "no list of numbers", &json);
  std::vector<T> numbers;
  for (const nlohmann::json& number : json) numbers.push_back(json_integer<T>(number));
  return numbers;
}

}  // namespace lathe
