#include "policy/catalog/fuse/overwrite.h"

#include <algorithm>
#include <set>

namespace lathe::catalog {
namespace {

/// One inout tensor, the value that takes its place, and the kernel that computes it.
class Overwriting {
 public:
  Overwriting(const Graph& graph, const Group& group, const std::string& tensor, const std::string& value)
      : graph_(graph), group_(group), tensor_(tensor), value_(value) {}

  bool reads() const {
    return std::ranges::any_of(group_.nodes, [&](int index) { return reads(node(index)); });
  }

  /// Whether each element is read before it is written, by the one that writes it, and by nobody
  /// later.
  bool in_place() const {
    if (!reads()) return true;
    if (reads_otherwise()) return false;
    const Placement& place = group_.places.at(value_);
    bool along_all = true, along_reduced = false, along_any = false;
    for (std::size_t i = 0; i < group_.space.size(); ++i) {
      if (is_one(group_.space[i])) continue;
      const bool runs = std::ranges::find(place, static_cast<int>(i)) != place.end();
      if (!runs && !group_.reduced[i]) return false;
      along_all &= runs;
      along_any |= runs;
      along_reduced |= runs && group_.reduced[i];
    }
    // Without a loop, every thread computes the value.
    if (!group_.reduces()) return along_any && (is_nest() || feeds_only_value());
    if (!feeds_only_value()) return false;
    // Later passes read the new value from the tensor.
    if (along_all) return true;
    return !along_reduced && follows_reduction() && !is_used();
  }

 private:
  const Primitive& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  bool is_nest() const {
    const Kind kind = node(group_.nodes[0]).kind;
    return kind == Kind::kApply || kind == Kind::kReduce;
  }
  bool reads(const Primitive& reader) const {
    return std::ranges::any_of(
        reader.in, [&](const std::string& operand) { return root_of(graph_, operand) == tensor_; });
  }
  /// At other places, or in another order.
  bool reads_otherwise() const {
    for (const int index : group_.nodes)
      for (const std::string& operand : node(index).in)
        if (root_of(graph_, operand) == tensor_ && operand != tensor_) return true;
    if (!is_nest() && reads(node(group_.nodes[0]))) return true;
    return group_.places.at(tensor_) != group_.places.at(value_);
  }
  const std::string& computed(const std::string& operand) const {
    const Primitive* inside = computed_in(graph_, group_, operand);
    return inside != nullptr ? inside->out : operand;
  }
  std::vector<int> in_order() const {
    std::vector<int> nodes = group_.nodes;
    std::ranges::sort(nodes);
    return nodes;
  }

  /// Whether nothing else that the kernel leaves depends on what was in the tensor.
  bool feeds_only_value() const {
    std::set<std::string> dependent = {tensor_};
    for (const int index : in_order()) {
      const Primitive& user = node(index);
      const auto depends = [&](const std::string& operand) { return dependent.contains(computed(operand)); };
      if (user.out == value_ || std::ranges::none_of(user.in, depends)) continue;
      if (is_needed_outside(graph_, group_, user)) return false;
      dependent.insert(user.out);
    }
    return true;
  }

  /// Whether all threads of a team have met after they read the tensor.
  bool follows_reduction() const {
    std::set<std::string> after;
    for (const int index : in_order()) {
      const Primitive& user = node(index);
      const bool follows =
          user.kind == Kind::kReduce || std::ranges::any_of(user.in, [&](const auto& operand) {
            return after.contains(computed(operand));
          });
      if (follows) after.insert(user.out);
    }
    return after.contains(value_);
  }
  bool is_used() const {
    return std::ranges::any_of(group_.nodes, [&](int index) {
      return std::ranges::any_of(node(index).in,
                                 [&](const std::string& operand) { return computed(operand) == value_; });
    });
  }

  const Graph& graph_;
  const Group& group_;
  const std::string& tensor_;
  const std::string& value_;
};

bool is_safe(const Graph& graph, const Partition& parts, const std::string& tensor,
             const std::string& value) {
  bool written = false;
  for (const Group& group : parts.groups) {
    const Overwriting here(graph, group, tensor, value);
    if (written && here.reads()) return false;
    const bool writes = std::ranges::any_of(
        group.nodes, [&](int index) { return graph.nodes[static_cast<std::size_t>(index)].out == value; });
    if (writes && !here.in_place()) return false;
    written |= writes;
  }
  return true;
}

}  // namespace

bool delay_overwriting(Graph& graph, const Partition& parts) {
  std::vector<std::string> late;
  for (const auto& [tensor, value] : graph.written)
    if (!is_safe(graph, parts, tensor, value)) late.push_back(tensor);
  for (const std::string& tensor : late) {
    std::string& value = graph.written.at(tensor);
    Primitive copy{.kind = Kind::kApply,
                   .out = graph.unused(value + "_copied"),
                   .in = {value},
                   .type = graph.type_of(value)};
    copy.formula = same_value;
    copy.apart = true;
    copy.exact = is_wide(copy.type.dtype);
    graph.types[copy.out] = copy.type;
    value = copy.out;
    graph.nodes.push_back(std::move(copy));
  }
  return !late.empty();
}

}  // namespace lathe::catalog
