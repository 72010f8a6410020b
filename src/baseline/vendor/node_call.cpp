#include "baseline/vendor/node_call.h"

#include <exception>

namespace lathe::vendor {
namespace {

Operand parse_buffer(const nlohmann::json& json) {
  Operand operand;
  operand.buffer = json.value("buffer", -1);
  operand.shape = json.at("shape").get<Extents>();
  operand.dtype = json.at("dtype").get<std::string>();
  return operand;
}

Result<Operand> parse_input(const nlohmann::json& json, const std::vector<Node>& earlier) {
  if (!json.contains("node")) {
    Operand operand = parse_buffer(json);
    if (operand.buffer < 0) return invalid("an input is neither a buffer nor a node");
    return operand;
  }
  const int node = json.at("node").get<int>();
  if (node < 0 || static_cast<std::size_t>(node) >= earlier.size())
    return invalid("an input refers to a later node");
  Operand operand = earlier[static_cast<std::size_t>(node)].out;
  operand.node = node;
  operand.buffer = -1;
  return operand;
}

Result<NodeCall> from_json(const nlohmann::json& json) {
  NodeCall call;
  call.library = json.at("library").get<std::string>();
  for (const nlohmann::json& text : json.at("nodes")) {
    Node node;
    node.op = text.at("op").get<std::string>();
    node.attrs = text.value("attrs", nlohmann::json::object());
    for (const nlohmann::json& input : text.at("in")) {
      LATHE_TRY(Operand operand, parse_input(input, call.nodes));
      node.in.push_back(std::move(operand));
    }
    node.out = parse_buffer(text.at("out"));
    call.nodes.push_back(std::move(node));
  }
  if (call.nodes.empty()) return invalid("a call needs at least one node");
  if (call.nodes.back().out.buffer < 0) return invalid("the last node of a call needs an output buffer");
  for (std::size_t i = 0; i + 1 < call.nodes.size(); ++i)
    if (call.nodes[i].out.buffer >= 0)
      return invalid("node " + std::to_string(i) + " of a call has a buffer, but its value stays inside",
                     "make it the last node of its own step");
  return call;
}

}  // namespace

Result<NodeCall> parse_node_call(std::string_view json) {
  try {
    return from_json(nlohmann::json::parse(json));
  } catch (const std::exception& error) {
    return invalid(std::string("the JSON of a library call: ") + error.what());
  }
}

std::int64_t count(const Extents& shape) {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) product *= extent;
  return product;
}

Extents per_axis(const Node& node, const char* name, std::size_t axes, std::int64_t fallback) {
  if (!node.attrs.contains(name)) return Extents(axes, fallback);
  const auto& value = node.attrs.at(name);
  if (!value.is_array()) return Extents(axes, value.get<std::int64_t>());
  const auto list = value.get<Extents>();
  return list.size() == 1 ? Extents(axes, list[0]) : list;
}

}  // namespace lathe::vendor
