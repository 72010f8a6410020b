#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "task/spec.h"

namespace lathe {

/// The files of tasks/, sorted.
inline std::vector<std::string> shipped_task_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/tasks"))
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

inline std::vector<TaskSpec> shipped_tasks() {
  std::vector<TaskSpec> tasks;
  for (const std::string& path : shipped_task_files()) {
    auto task = load_task(path);
    EXPECT_TRUE(task.ok()) << task.error().to_string();
    if (task.ok()) tasks.push_back(*std::move(task));
  }
  return tasks;
}

}  // namespace lathe
