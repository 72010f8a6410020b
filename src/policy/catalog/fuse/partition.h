#pragma once

#include "policy/catalog/ir/group.h"

namespace lathe::catalog {

/// How primitives become kernels, in execution order. Views are no kernels: they are other names.
struct Partition {
  std::vector<Group> groups;
};

/// fuse = false: every primitive for itself. Dead primitives are dropped.
Partition partition(const Graph& graph, bool fuse);

}  // namespace lathe::catalog
