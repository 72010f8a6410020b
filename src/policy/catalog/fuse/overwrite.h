#pragma once

#include "policy/catalog/fuse/partition.h"

namespace lathe::catalog {

/// What is written to an inout tensor waits in memory of its own, and is copied at the end, where a
/// kernel of `parts` would read the tensor after it. Whether anything changed: `graph` then needs
/// another partition, in which all tensors are read before they are written.
bool delay_overwriting(Graph& graph, const Partition& parts);

}  // namespace lathe::catalog
