#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "candidate/dialect.h"
#include "task/spec.h"

namespace lathe {

/// Nodes that one library call computes, in the task's order. Only the last node's value is used
/// outside the group.
struct VendorGroup {
  std::string library;
  std::vector<std::string> nodes;
};

/// CPU: "openblas", "onednn"; GPU: "cublas", "cudnn".
std::span<const std::string_view> vendor_libraries(Dialect dialect = Dialect::kCpu);

/// The parts of a task that a library can compute, in the largest groups that it can fuse:
/// disjoint, ordered by their last nodes. src/baseline/vendor implements exactly these groups.
std::vector<VendorGroup> vendor_groups(const TaskSpec& task, std::string_view library);

}  // namespace lathe
