#pragma once

#include <map>
#include <string>
#include <vector>

namespace lathe {

/// The folders of src/ from the lowest to the highest: a folder may include itself and those before
/// it.
using FolderOrder = std::vector<std::string>;

/// The orders that include_violations() enforces; each is written down once, in a CMakeLists.txt.
struct HouseOrder {
  FolderOrder folders;          ///< LATHE_FOLDERS of src/CMakeLists.txt
  FolderOrder cuda_folders;     ///< LATHE_CUDA_FOLDERS of src/backend/cuda/CMakeLists.txt
  FolderOrder catalog_folders;  ///< LATHE_CATALOG_FOLDERS of src/policy/catalog/CMakeLists.txt
};

/// Paths below src/ and their texts.
using SourceTree = std::map<std::string, std::string>;

/// The words of `set(<variable> ...)` in a CMakeLists.txt; empty where there is no such line.
FolderOrder read_folder_order(const std::string& cmake_text, const std::string& variable);

/// Every .h and .cpp below `folder`.
SourceTree read_source_tree(const std::string& folder);

/// One text a wrong include: "base/a.h:3: includes task/b.h, which stands above it". The rules:
///   - a folder includes only itself and folders before it;
///   - backend/X and policy/X never include their siblings, and their own parents never include
///     them;
///   - only cli chooses a backend or a policy by name: nobody else includes backend/X or policy/X;
///   - inside task/: the values first, then dtypes, ops, lint, generate;
///   - inside backend/cuda/: a folder includes itself and the first one (wire), so broker and
///     runner never
///     include each other, and every file is in one of them;
///   - inside policy/catalog/: a stage includes itself and those before it, the top includes all.
std::vector<std::string> include_violations(const SourceTree& tree, const HouseOrder& order);

}  // namespace lathe
