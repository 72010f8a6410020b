#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "base/fd.h"
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

/// The shipped tasks with tensors of `dtype` where they have fp32 ones; without those that fix a
/// type elsewhere.
inline std::vector<TaskSpec> shipped_tasks_of(const std::string& dtype) {
  const std::regex tensor(R"(\{ (name = "[^"]*")((?:[^{}]|\{[^{}]*\})*)\})"),
      typed("dtype|\"index\"|\"scalar\""), baselines("baselines = .*\n");
  std::vector<TaskSpec> tasks;
  for (const std::string& path : shipped_task_files()) {
    const std::string text = std::regex_replace(*read_file(path), baselines, "");
    std::string retyped;
    std::size_t behind = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), tensor), end; at != end; ++at) {
      const bool fixed = std::regex_search((*at)[2].str(), typed);
      retyped += text.substr(behind, static_cast<std::size_t>(at->position()) - behind);
      retyped +=
          fixed ? at->str() : "{ " + (*at)[1].str() + ", dtype = \"" + dtype + "\"" + (*at)[2].str() + "}";
      behind = static_cast<std::size_t>(at->position() + at->length());
    }
    auto task = parse_task(retyped + text.substr(behind), path);
    if (task.ok()) tasks.push_back(*std::move(task));
  }
  return tasks;
}

}  // namespace lathe
