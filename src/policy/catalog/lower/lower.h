#pragma once

#include "policy/catalog/ir/graph.h"

namespace lathe::catalog {

/// The task as primitives. Errors: an op or a dtype that the catalogue does not know.
Result<Graph> lower(const TaskSpec& task);

}  // namespace lathe::catalog
