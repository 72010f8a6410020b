#include "base/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>

namespace lathe {

Result<TemporaryFolder> TemporaryFolder::make(std::string_view name) {
  std::error_code code;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(code);
  if (code)
    return Error{ErrorCode::kIo, "there is no folder for temporary files: " + code.message(),
                 "TMPDIR must name a folder that is there"};
  std::string path = (parent / fmt::format("{}-XXXXXX", name)).string();
  if (!::mkdtemp(path.data()))
    return errno_error("cannot make a folder in " + parent.string(),
                       "TMPDIR must name a folder that is writable");
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace lathe
