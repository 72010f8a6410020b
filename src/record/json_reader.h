#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace lathe {

/// Reads the fields of one JSON object. The first thing wrong is kept and later reads do nothing,
/// so a caller reads everything and asks status() once. Errors name the field by its path
/// ("verdict.timings[2].pairs"). Fields that nobody reads are tolerated: a newer writer may add
/// some.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& object, std::string path);

  void read(std::string_view field, std::string& to);
  void read(std::string_view field, bool& to);
  void read(std::string_view field, int& to);
  void read(std::string_view field, std::int64_t& to);
  void read(std::string_view field, double& to);  ///< finite only
  void read(std::string_view field, Digest& to);
  void read(std::string_view field, std::map<std::string, double>& to);
  void read(std::string_view field, std::map<std::string, Digest>& to);
  void read(std::string_view field, std::vector<Digest>& to);
  void read(std::string_view field, std::vector<std::string>& to);

  /// Text that `parse` (a function of string_view giving a Result) turns into a value.
  template <class T, class Parse>
  void read_name(std::string_view field, T& to, Parse parse) {
    std::string text;
    read(field, text);
    if (!status_.ok()) return;
    auto value = parse(text);
    if (value.ok()) {
      to = *value;
    } else {
      status_ = at(field, value.error().message, value.error().hint);
    }
  }
  /// An object, or an array of objects, read by `read_fields(JsonReader&, T&)`.
  template <class ReadFields>
  void read_object(std::string_view field, ReadFields read_fields) {
    const nlohmann::json* node = find(field);
    if (node == nullptr) return;
    JsonReader inner(*node, path_of(field));
    read_fields(inner);
    adopt(inner);
  }
  template <class T, class ReadFields>
  void read_list(std::string_view field, std::vector<T>& to, ReadFields read_fields) {
    const nlohmann::json* node = find_array(field);
    if (node == nullptr) return;
    for (std::size_t i = 0; i < node->size() && status_.ok(); ++i) {
      JsonReader inner((*node)[i], path_of(field) + "[" + std::to_string(i) + "]");
      read_fields(inner, to.emplace_back());
      adopt(inner);
    }
  }

  bool has(std::string_view field) const { return object_.contains(field); }
  const Status& status() const { return status_; }

 private:
  template <class Value>
  void read_map(std::string_view field, std::map<std::string, Value>& to) {
    read_object(field, [&](JsonReader& inner) {
      if (!inner.object_.is_object()) return;
      for (const auto& item : inner.object_.items()) inner.read(item.key(), to[item.key()]);
    });
  }
  const nlohmann::json* find(std::string_view field);
  const nlohmann::json* find_array(std::string_view field);
  std::string path_of(std::string_view field) const { return path_ + "." + std::string(field); }
  Error at(std::string_view field, const std::string& what, std::string hint = {}) const;
  void adopt(const JsonReader& inner) {
    if (status_.ok() && !inner.status_.ok()) status_ = inner.status_.error();
  }

  const nlohmann::json& object_;
  std::string path_;
  Status status_ = Ok{};
};

}  // namespace lathe
