#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <new>

#include "base/output.h"

namespace lathe {

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::string> read_file(const std::string& path, std::size_t most_bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    Error error = errno_error("cannot open '" + path + "'", "check that the path exists and can be read");
    if (errno == ENOENT) error.code = ErrorCode::kNotFound;
    return error;
  }
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return bytes;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EISDIR) return invalid("'" + path + "' is a folder", "name a file in it");
    if (got < 0) return errno_error("cannot read '" + path + "'");
    if (bytes.size() + static_cast<std::size_t>(got) > most_bytes)
      return invalid("'" + path + "' has more than " + std::to_string(most_bytes) + " bytes",
                     "name a file that is what it should be");
    try {
      bytes.append(buffer, static_cast<std::size_t>(got));
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::kUnavailable, "'" + path + "' does not fit in memory",
                   "raise the memory limit"};
    }
  }
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  return replace_file(path, bytes, 0644);
}

Status make_directories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code == std::errc::not_a_directory || code == std::errc::file_exists)
    return Error{ErrorCode::kIo, "cannot create folder '" + path + "': there is a file of that name",
                 "name another folder"};
  if (code)
    return Error{ErrorCode::kIo, "cannot create folder '" + path + "': " + code.message(),
                 "check permissions and free disk space"};
  return Ok{};
}

}  // namespace lathe
