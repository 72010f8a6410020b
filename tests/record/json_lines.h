#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fd.h"

namespace lathe {

/// Of a file that is there.
inline std::vector<nlohmann::json> json_lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  const std::string text = read_file(path).value();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

}  // namespace lathe
