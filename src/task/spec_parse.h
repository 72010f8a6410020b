#pragma once

#include <string>
#include <vector>

#include "task/raw_node.h"
#include "task/spec.h"

namespace lathe {

/// Dims at which two extents are compared, the scored shapes first: those shapes plus, unless the task is
/// fixed, a few drawn from its domain, so that extents that are equal by accident are told apart.
std::vector<Dims> probe_shapes(const TaskSpec& spec);

/// Resolves ops, attributes and inputs, infers types: fills spec.nodes.
Status resolve_nodes(const std::vector<RawNode>& raw, TaskSpec& spec);

/// Fills spec.outputs from [[output]], or with the last node, and refuses tensors and nodes without use.
Status resolve_outputs(const TomlTable& task, TaskSpec& spec);

}  // namespace lathe
