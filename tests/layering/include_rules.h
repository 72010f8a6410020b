#pragma once

#include <map>
#include <string>
#include <vector>

namespace lathe {

/// The folders of src/ from the lowest to the highest: a folder may include itself and those before it.
using FolderOrder = std::vector<std::string>;

/// Paths below src/ and their texts.
using SourceTree = std::map<std::string, std::string>;

/// The LATHE_FOLDERS list of src/CMakeLists.txt: the one place where the order is written down.
FolderOrder read_folder_order(const std::string& cmake_text);

/// Every .h and .cpp below `folder`.
SourceTree read_source_tree(const std::string& folder);

/// One text a wrong include: "base/a.h:3: includes task/b.h, which stands above it". The rules:
///   - a folder includes only itself and folders before it;
///   - backend/X and policy/X never include their siblings, and their own parents never include them;
///   - only cli chooses a backend or a policy by name: nobody else includes backend/X or policy/X;
///   - inside task/: the values first, then dtypes, ops, lint, generate.
std::vector<std::string> include_violations(const SourceTree& tree, const FolderOrder& order);

}  // namespace lathe
