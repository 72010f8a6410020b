#pragma once

#include <string>
#include <vector>

#include "policy/catalog/ir/group.h"
#include "policy/catalog/schedule/choices.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// What a pattern chooses from: one group, the target, and who decides its knobs. Knob names start
/// with `prefix`, kernel names too.
struct Site {
  const Graph& graph;
  const Group& group;
  const Target& target;
  Choices& choices;
  std::string prefix;  ///< "g0"

  const Primitive& node(std::size_t i = 0) const {
    return graph.nodes[static_cast<std::size_t>(group.nodes[i])];
  }
  /// Of an input of the first node.
  const std::vector<Expr>& shape_of_input(std::size_t i) const { return graph.type_of(node().in[i]).shape; }
  int knob(const std::string& name, const std::vector<int>& allowed, int fallback) const {
    return choices.pick(prefix + "." + name, allowed, fallback);
  }
  std::int64_t headline(const Expr& expr) const { return catalog::headline(graph, expr); }
  double count(std::span<const Expr> shape) const { return headline_count(graph, shape); }
};

}  // namespace lathe::catalog
