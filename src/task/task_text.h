#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "task/spec.h"

namespace lathe {

/// All that a task is made of, so that it can travel without files.
struct TaskText {
  std::string toml;
  std::optional<std::string> module = {};  ///< of a process reference: what is in its file

  /// As load_task() names the same task.
  Digest digest() const;
  /// One text: the module lies behind a record separator, which TOML cannot contain.
  std::string joined() const;
  static TaskText split(std::string_view joined);
};

TaskText text_of(const TaskSpec& spec);

/// parse_task(), and a process reference has its text. Errors: a process task without one, another
/// task with one.
Result<TaskSpec> parse_task_text(const TaskText& text, const std::string& path);

}  // namespace lathe
