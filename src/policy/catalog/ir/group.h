#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/catalog/ir/graph.h"

namespace lathe::catalog {

/// For each axis of a value, the axis of the group's space that it runs along; -1 where the extent
/// is 1.
using Placement = std::vector<int>;

/// Primitives that become one kernel: a nest of loops over `space`, or a special primitive (the
/// first node) and the elementwise ones that consume its result.
struct Group {
  std::vector<int> nodes;  ///< indices into Graph::nodes, ascending
  std::vector<Expr> space;
  std::vector<bool> reduced;                ///< axes of space that every kReduce of the group reduces
  std::map<std::string, Placement> places;  ///< of values computed or read

  bool reduces() const;
};

/// The value whose buffer holds `value`: itself unless it is a view.
std::string root_of(const Graph& graph, const std::string& value);

/// The value of the group that `value` names, through views that only add or drop extents of 1, or
/// nullptr.
const Primitive* computed_in(const Graph& graph, const Group& group, const std::string& value);

/// Whether someone outside the group reads the value of `node`, or the task returns it.
bool is_needed_outside(const Graph& graph, const Group& group, const Primitive& node);

}  // namespace lathe::catalog
