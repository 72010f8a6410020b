#pragma once

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/fd.h"

namespace lathe {

/// A candidate that a page shows: what a reader copies must work.
struct DocumentedCandidate {
  std::string place;  ///< "docs/cuda.md:12"
  std::string text;
  bool for_gpu = false;
};

/// The fenced blocks of README.md and docs/ that begin with front matter and go on with code. A
/// block with a plan alone is no candidate.
inline std::vector<DocumentedCandidate> documented_candidates() {
  std::vector<std::string> pages{"README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LATHE_SOURCE_DIR "/docs"))
    if (entry.path().extension() == ".md")
      pages.push_back(std::filesystem::relative(entry.path(), LATHE_SOURCE_DIR).string());
  std::sort(pages.begin(), pages.end());
  std::vector<DocumentedCandidate> found;
  for (const std::string& page : pages) {
    std::istringstream text(read_file(LATHE_SOURCE_DIR "/" + page).value());
    bool inside = false;
    int number = 0, begin = 0;
    std::string block;
    for (std::string line; std::getline(text, line);) {
      ++number;
      if (!line.starts_with("```")) {
        block += line + "\n";
        continue;
      }
      const std::size_t end = block.find("*/");
      if (inside && block.starts_with("/*lathe") && end != block.npos &&
          block.find_first_not_of(" \n", end + 2) != block.npos)
        found.push_back({page + ":" + std::to_string(begin), block, block.find("__global__") != block.npos});
      inside = !inside;
      begin = number;
      block.clear();
    }
  }
  return found;
}

}  // namespace lathe
