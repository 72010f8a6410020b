#include "tests/layering/include_rules.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>

#include "base/fd.h"

namespace lathe {
namespace {

const FolderOrder kTaskParts = {"", "dtypes", "ops", "lint", "generate"};

/// "backend/cpu/runner/zygote.h" -> {"backend", "cpu", "runner"}; a file directly in its folder has
/// no part.
struct Place {
  std::string folder;
  std::string part;
  std::string inner;
};

Place place_of(const std::string& path) {
  std::vector<std::string> folders;
  std::size_t begin = 0;
  for (std::size_t end; (end = path.find('/', begin)) != std::string::npos; begin = end + 1)
    folders.push_back(path.substr(begin, end - begin));
  folders.resize(std::max<std::size_t>(folders.size(), 3));
  return {folders[0], folders[1], folders[2]};
}

std::optional<std::size_t> rank(const FolderOrder& order, const std::string& folder) {
  const auto found = std::find(order.begin(), order.end(), folder);
  if (found == order.end()) return std::nullopt;
  return static_cast<std::size_t>(found - order.begin());
}

bool chosen_by_name(const Place& place) {
  return (place.folder == "backend" || place.folder == "policy") && !place.part.empty();
}

/// Why `from` must not include `to`; nullopt when it may.
std::optional<std::string> objection(const Place& from, const Place& to, const HouseOrder& order) {
  const auto own = rank(order.folders, from.folder);
  const auto other = rank(order.folders, to.folder);
  if (!other) return std::nullopt;
  if (!own) return "from a folder that the order does not name";
  if (*other > *own) return "which stands above it";
  const bool same_part = from.folder == to.folder && from.part == to.part;
  if (chosen_by_name(to) && !same_part && from.folder != "cli") return "which only cli may choose by name";
  if (from.folder == "task" && to.folder == "task") {
    const auto own_part = rank(kTaskParts, from.part);
    const auto other_part = rank(kTaskParts, to.part);
    if (!own_part || !other_part) return "a part of task/ that has no place in the order";
    if (*other_part > *own_part) return "which stands above it inside task/";
  }
  if (same_part && from.folder == "backend" && from.part == "cuda") {
    if (!rank(order.cuda_folders, from.inner) || !rank(order.cuda_folders, to.inner))
      return "a part of backend/cuda/ that has no place in the order";
    if (to.inner != from.inner && to.inner != order.cuda_folders.front())
      return "which is on the other side of backend/cuda/";
  }
  if (same_part && from.folder == "policy" && from.part == "catalog" && !from.inner.empty()) {
    const auto own_stage = rank(order.catalog_folders, from.inner);
    const auto other_stage = rank(order.catalog_folders, to.inner);
    if (!own_stage) return "from a part of policy/catalog/ that has no place in the order";
    if (!other_stage || *other_stage > *own_stage) return "which stands above it inside policy/catalog/";
  }
  return std::nullopt;
}

}  // namespace

FolderOrder read_folder_order(const std::string& cmake_text, const std::string& variable) {
  std::smatch match;
  FolderOrder order;
  if (!std::regex_search(cmake_text, match, std::regex("set\\(" + variable + "\\s([^)]*)\\)"))) return order;
  std::istringstream words(match[1].str());
  for (std::string word; words >> word;) order.push_back(word);
  return order;
}

SourceTree read_source_tree(const std::string& folder) {
  namespace fs = std::filesystem;
  SourceTree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp")) continue;
    tree[fs::relative(entry.path(), folder).generic_string()] = read_file(entry.path().string()).value();
  }
  return tree;
}

std::vector<std::string> include_violations(const SourceTree& tree, const HouseOrder& order) {
  static const std::regex include_line("^\\s*#\\s*include\\s*[\"<]([^\">]+)[\">]");
  std::vector<std::string> violations;
  for (const auto& [path, text] : tree) {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      std::smatch match;
      if (!std::regex_search(line, match, include_line)) continue;
      const auto why = objection(place_of(path), place_of(match[1].str()), order);
      if (why)
        violations.push_back(path + ":" + std::to_string(number) + ": includes " + match[1].str() + ", " +
                             *why);
    }
  }
  return violations;
}

}  // namespace lathe
