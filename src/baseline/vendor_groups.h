#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "candidate/dialect.h"
#include "task/spec.h"

namespace lathe {

/// Nodes that one library call computes, in the task's order. Only the last one's value leaves the group.
struct VendorGroup {
  std::string library;
  std::vector<std::string> nodes;
};

/// CPU: "openblas", "onednn"; GPU: "cublas", "cudnn".
std::span<const std::string_view> vendor_libraries(Dialect dialect = Dialect::kCpu);

/// What a library can do of a task, in the largest groups it can fuse: disjoint, in the order of their last
/// nodes. This is the one place that knows it; src/baseline/vendor implements exactly these groups.
std::vector<VendorGroup> vendor_groups(const TaskSpec& task, std::string_view library);

}  // namespace lathe
