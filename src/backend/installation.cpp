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

Result<std::string> device_header_folder() {
  LATHE_TRY(const std::string beside, sibling_program(""));
  return find_part("", {beside + "../share/lathe/device", LATHE_DEVICE_FOLDER});
}

}  // namespace lathe
