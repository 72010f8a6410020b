#pragma once

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "serve/api.h"

namespace lathe::serve {

/// "GET /v1/tasks", ... of a document.
inline std::set<std::string> operations_in(const nlohmann::json& document) {
  std::set<std::string> described;
  for (const auto& [path, methods] : document["paths"].items())
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      described.insert(upper + " " + path);
    }
  return described;
}

/// The same of handlers.
inline std::set<std::string> names_of(const std::vector<Api::Operation>& operations) {
  std::set<std::string> names;
  for (const auto& operation : operations) names.insert(std::string(operation.method) + " " + operation.path);
  return names;
}

/// The document of a status of an operation; empty where it has none.
inline nlohmann::json response_in(const nlohmann::json& document, const std::string& path, std::string method,
                                  int status) {
  for (char& c : method) c = static_cast<char>(std::tolower(c));
  const nlohmann::json& responses = document["paths"][path][method]["responses"];
  const std::string number = std::to_string(status);
  if (!responses.contains(number)) return nlohmann::json::object();
  if (!responses[number].contains("$ref")) return responses[number];
  const std::string ref = responses[number]["$ref"];
  return document["components"]["responses"][ref.substr(ref.rfind('/') + 1)];
}

inline bool is_of_type(const nlohmann::json& value, const std::string& type) {
  return type == "null"      ? value.is_null()
         : type == "boolean" ? value.is_boolean()
         : type == "integer" ? value.is_number_integer()
         : type == "number"  ? value.is_number()
         : type == "string"  ? value.is_string()
         : type == "array"   ? value.is_array()
                             : value.is_object();
}

/// What a schema says of a document: the first thing that does not hold.
inline std::string objection(const nlohmann::json& root, nlohmann::json schema, const nlohmann::json& value) {
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    schema = root["components"]["schemas"][ref.substr(ref.rfind('/') + 1)];
  }
  if (schema.contains("enum"))
    return std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()
               ? value.dump() + " is none of the values"
               : "";
  nlohmann::json types = schema.value("type", nlohmann::json::array());
  if (types.is_string()) types = nlohmann::json::array({types});
  if (!types.empty() &&
      std::none_of(types.begin(), types.end(), [&](const auto& type) { return is_of_type(value, type); }))
    return value.dump() + " is none of " + types.dump();
  if (value.is_object()) {
    for (const auto& name : schema.value("required", nlohmann::json::array()))
      if (!value.contains(name.get<std::string>())) return name.get<std::string>() + " is missing";
    if (!schema.contains("properties")) return "";
    for (const auto& [name, member] : value.items()) {
      if (!schema["properties"].contains(name)) return name + " is not in the document";
      if (const auto inner = objection(root, schema["properties"][name], member); !inner.empty())
        return name + ": " + inner;
    }
  }
  if (value.is_array() && schema.contains("items"))
    for (const auto& item : value)
      if (const auto inner = objection(root, schema["items"], item); !inner.empty()) return inner;
  return "";
}

}  // namespace lathe::serve
