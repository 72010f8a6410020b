#include "policy/catalog/ir/group.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

const Primitive* producer(const Graph& graph, const std::string& value) {
  for (const Primitive& node : graph.nodes)
    if (node.out == value) return &node;
  return nullptr;
}

}  // namespace

bool Group::reduces() const { return std::ranges::find(reduced, true) != reduced.end(); }

std::string root_of(const Graph& graph, const std::string& value) {
  const Primitive* node = producer(graph, value);
  return node != nullptr && node->kind == Kind::kView ? root_of(graph, node->in[0]) : value;
}

const Primitive* computed_in(const Graph& graph, const Group& group, const std::string& value) {
  const Primitive* node = producer(graph, value);
  if (node == nullptr) return nullptr;
  if (node->kind == Kind::kView) {
    const auto extents = [&](const std::string& name) {
      std::vector<std::string> list;
      for (const Expr& extent : graph.type_of(name).shape)
        if (!is_one(extent)) list.push_back(extent.to_string());
      return list;
    };
    return extents(value) == extents(node->in[0]) ? computed_in(graph, group, node->in[0]) : nullptr;
  }
  for (const int index : group.nodes)
    if (&graph.nodes[static_cast<std::size_t>(index)] == node) return node;
  return nullptr;
}

bool is_needed_outside(const Graph& graph, const Group& group, const Primitive& node) {
  std::vector<std::string> names = {node.out};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (graph.is_output(names[i])) return true;
    for (const int index : graph.consumers(names[i])) {
      const Primitive& consumer = graph.nodes[static_cast<std::size_t>(index)];
      if (consumer.kind == Kind::kView) {
        names.push_back(consumer.out);
      } else if (std::ranges::find(group.nodes, index) == group.nodes.end() ||
                 computed_in(graph, group, names[i]) == nullptr) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace lathe::catalog
