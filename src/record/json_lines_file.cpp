#include "record/json_lines_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/output.h"
#include "record/json.h"

namespace lathe {

Result<JsonLinesFile> JsonLinesFile::open(const std::string& path, std::int64_t bytes) {
  LATHE_CHECK_OK(make_directories(std::filesystem::path(path).parent_path()));
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0) return errno_error("cannot write " + path);
  const std::int64_t kept = std::min<std::int64_t>(bytes, found.st_size);
  if (S_ISREG(found.st_mode) &&
      (::ftruncate(file.get(), kept) != 0 || ::lseek(file.get(), kept, SEEK_SET) < 0))
    return errno_error("cannot write " + path);
  return JsonLinesFile(path, std::move(file), kept);
}

Status JsonLinesFile::write(const nlohmann::json& line) {
  const std::string text = json_text(line) + "\n";
  LATHE_CHECK_OK(write_all(file_.get(), text, path_));
  bytes_ += static_cast<std::int64_t>(text.size());
  return Ok{};
}

}  // namespace lathe
