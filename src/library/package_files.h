#pragma once

#include <string>
#include <vector>

#include "library/kernel_source.h"

namespace lathe {

/// lathe_<name>Config.cmake: makes the target from source wherever the folder lies.
std::string cmake_config(const std::string& package, const std::vector<KernelVariant>& variants);
/// CMakeLists.txt, for add_subdirectory and FetchContent.
std::string cmake_lists(const std::string& package);
/// evidence.json: what was proved and measured, where (docs/json.md).
std::string evidence_json(const ExportRequest& request, const std::string& package);
std::string readme(const ExportRequest& request, const std::string& package,
                   const std::vector<KernelVariant>& variants);

}  // namespace lathe
