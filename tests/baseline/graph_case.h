#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "task/spec.h"

namespace lathe {

/// A small task written in a line or two: inputs as "name: shape" (with a dtype, a role or a
/// generator behind a semicolon, as TOML), the graph, and one scored shape.
struct GraphCase {
  std::string name;
  std::vector<std::string> inputs;
  std::string graph;
  std::string dims;                       ///< "M = 5, N = 17"
  std::vector<std::string> outputs = {};  ///< empty: the last node
};

Result<TaskSpec> parse_case(const GraphCase& graph_case);

/// The case with tensors of `dtype` where it has fp32 ones.
GraphCase retyped(GraphCase graph_case, const std::string& dtype);

/// Aborts the test program if the case is no valid task.
TaskSpec make_task(const GraphCase& graph_case);

/// Whether `library` has all of the task's dtypes on this processor: oneDNN computes in bf16 only
/// with AVX-512.
bool computes_here(const TaskSpec& task, std::string_view library);

/// Every op in the variants that its emitters tell apart.
const std::vector<GraphCase>& op_cases();

/// What the vendor libraries fuse, group by group.
const std::vector<GraphCase>& vendor_cases();

}  // namespace lathe
