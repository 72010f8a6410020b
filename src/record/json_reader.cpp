#include "record/json_reader.h"

#include <cmath>
#include <limits>

namespace lathe {

using nlohmann::json;

JsonReader::JsonReader(const json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object_.is_object()) status_ = invalid(path_ + ": expected an object");
}

Error JsonReader::at(std::string_view field, const std::string& what, std::string hint) const {
  return invalid(path_of(field) + ": " + what, std::move(hint));
}

const json* JsonReader::find(std::string_view field) {
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(field);
  if (found != object_.end()) return &*found;
  status_ = at(field, "missing");
  return nullptr;
}

const json* JsonReader::find_array(std::string_view field) {
  const json* node = find(field);
  if (node == nullptr || node->is_array()) return node;
  status_ = at(field, "expected an array");
  return nullptr;
}

void JsonReader::read(std::string_view field, std::string& to) {
  const json* node = find(field);
  if (node == nullptr) return;
  if (!node->is_string()) {
    status_ = at(field, "expected text");
    return;
  }
  to = node->get_ref<const std::string&>();
}

void JsonReader::read(std::string_view field, bool& to) {
  const json* node = find(field);
  if (node == nullptr) return;
  if (!node->is_boolean()) {
    status_ = at(field, "expected true or false");
    return;
  }
  to = node->get<bool>();
}

void JsonReader::read(std::string_view field, std::int64_t& to) {
  const json* node = find(field);
  if (node == nullptr) return;
  const bool too_large = node->is_number_unsigned() &&
                         node->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!node->is_number_integer() || too_large) {
    status_ = at(field, "expected a 64-bit integer");
    return;
  }
  to = node->get<std::int64_t>();
}

void JsonReader::read(std::string_view field, int& to) {
  std::int64_t wide = 0;
  read(field, wide);
  if (!status_.ok()) return;
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    status_ = at(field, "out of range");
    return;
  }
  to = static_cast<int>(wide);
}

void JsonReader::read(std::string_view field, double& to) {
  const json* node = find(field);
  if (node == nullptr) return;
  if (!node->is_number() || !std::isfinite(node->get<double>())) {
    status_ = at(field, "expected a finite number");
    return;
  }
  to = node->get<double>();
}

void JsonReader::read(std::string_view field, Digest& to) { read_name(field, to, Digest::from_hex); }

void JsonReader::read(std::string_view field, std::map<std::string, double>& to) { read_map(field, to); }
void JsonReader::read(std::string_view field, std::map<std::string, Digest>& to) { read_map(field, to); }

void JsonReader::read(std::string_view field, std::vector<Digest>& to) {
  const json* node = find_array(field);
  if (node == nullptr) return;
  for (const json& item : *node) {
    const auto digest = Digest::from_hex(item.is_string() ? item.get<std::string>() : "");
    if (!digest.ok()) {
      status_ = at(std::string(field) + "[" + std::to_string(to.size()) + "]", digest.error().message);
      return;
    }
    to.push_back(*digest);
  }
}

void JsonReader::read(std::string_view field, std::vector<std::string>& to) {
  const json* node = find_array(field);
  if (node == nullptr) return;
  for (const json& item : *node) {
    if (!item.is_string()) {
      status_ = at(std::string(field) + "[" + std::to_string(to.size()) + "]", "expected text");
      return;
    }
    to.push_back(item.get<std::string>());
  }
}

}  // namespace lathe
