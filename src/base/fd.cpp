#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace lathe {

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::string> read_file(const std::string& path) {
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
    if (got < 0) return errno_error("cannot read '" + path + "'");
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid())
    return errno_error("cannot create a file beside '" + path + "'",
                       "check that the folder exists and can be written");
  const auto fail = [&](const char* action) -> Status {
    Error error =
        errno_error(std::string(action) + " '" + path + "'", "check free disk space and permissions");
    ::unlink(temporary.c_str());
    return error;
  };
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail("cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0) return fail("cannot sync");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("cannot publish");
  return Ok{};
}

Status make_directories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code)
    return Error{ErrorCode::kIo, "cannot create folder '" + path + "': " + code.message(),
                 "check permissions and free disk space"};
  return Ok{};
}

}  // namespace lathe
