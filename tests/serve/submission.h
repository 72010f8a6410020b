#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

namespace lathe::serve {

/// The body of a POST to /v1/evaluations. No deadline: 0.
inline std::string submission(const std::string& candidate, const std::string& task = kTinyTask,
                              double deadline_seconds = 0) {
  nlohmann::json item = {{"task", {{"toml", task}}}, {"candidate", candidate}};
  if (deadline_seconds > 0) item["deadline_seconds"] = deadline_seconds;
  return item.dump();
}

}  // namespace lathe::serve
