#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "task/bound_task.h"

namespace lathe {

inline constexpr std::string_view kLinearTask = R"toml(
name = "linear"
dims = { M = [1, 64], N = [1, 64], K = [1, 64] }
tensor = [
  { name = "x", shape = ["M", "K"] },
  { name = "w", shape = ["K", "N"], role = "parameter" },
  { name = "b", shape = ["N"], role = "parameter" },
]
graph = """
h = matmul(x, w)
y = bias_add(h, b)
"""
shape = [{ name = "small", M = 32, N = 48, K = 64 }]
)toml";

/// Parses a task that is known to be right.
inline TaskSpec task_of(std::string_view text) {
  Result<TaskSpec> spec = parse_task(text, "test.toml");
  if (!spec.ok()) {
    ADD_FAILURE() << spec.error().to_string();
    std::abort();
  }
  return *std::move(spec);
}

inline BoundTask bind_first(const TaskSpec& spec) {
  Result<BoundTask> task = bind(spec, spec.shapes.front().dims);
  if (!task.ok()) {
    ADD_FAILURE() << task.error().to_string();
    std::abort();
  }
  return *std::move(task);
}

}  // namespace lathe
