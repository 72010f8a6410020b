#include "backend/installation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "sandbox/process.h"

namespace lathe {

Result<std::string> find_part(const std::string& chosen, const std::vector<std::string>& choices) {
  if (!chosen.empty()) return chosen;
  std::error_code code;
  const auto found = std::find_if(choices.begin(), choices.end(), [&](const std::string& choice) {
    return std::filesystem::exists(choice, code);
  });
  if (found == choices.end())
    return Error{ErrorCode::kUnavailable,
                 fmt::format("a part of Lathe is missing; looked for {}", fmt::join(choices, ", ")),
                 "build or install Lathe whole"};
  return *found;
}

Result<std::string> find_program(const std::string& chosen, const std::string& name) {
  LATHE_TRY(const std::string beside, sibling_program(""));
  return find_part(chosen, {beside + name, beside + "../libexec/" + name});
}

Result<std::string> find_vendor_library(const std::string& chosen, const std::string& name) {
  LATHE_TRY(const std::string beside, sibling_program(""));
  return find_part(chosen, {beside + "../lib/" + name, beside + name});
}

Result<std::string> find_data_folder(const std::string& folder, const std::string& member) {
  LATHE_TRY(const std::string beside, sibling_program(""));
  std::vector<std::string> choices;
  for (const std::string& root : {beside + "..", beside + "../share/lathe", std::string(LATHE_SOURCE_DIR)})
    choices.push_back(std::filesystem::path(root + "/" + folder + "/" + member).lexically_normal().string());
  LATHE_TRY(const std::string found, find_part("", choices));
  return found.substr(0, found.size() - member.size() - 1);
}

Result<std::string> device_header_folder() { return find_data_folder("device", "lathe/cpu.h"); }

}  // namespace lathe
