#include "base/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "base/random.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;
constexpr mode_t kPermissionBits = 0777;

std::string quoted(const std::string& path) { return "'" + path + "'"; }

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// N of a path in the folder of this process's own descriptors.
std::optional<int> own_descriptor(const std::string& path) {
  std::error_code code;
  const fs::path folder = fs::canonical(folder_of(path), code);
  if (code || (folder != fs::canonical("/proc/self/fd", code) &&
               folder != fs::canonical("/proc/thread-self/fd", code)))
    return std::nullopt;
  const std::string name = fs::path(path).filename();
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// Where the bytes for a path go.
struct Target {
  enum class Kind { kFile, kSpecial, kSocket, kDescriptor };
  Kind kind = Kind::kFile;
  std::string path;               ///< no symbolic link
  std::optional<mode_t> present;  ///< the permissions of a file that is there
  int descriptor = -1;
};

/// Follows the links one by one: the last may name a file that does not exist yet, or a descriptor.
Result<Target> follow(const std::string& given) {
  Target target{.path = given};
  for (int links = 0; links <= kMaxLinks; ++links) {
    if (const auto descriptor = own_descriptor(target.path)) {
      target.kind = Target::Kind::kDescriptor;
      target.descriptor = *descriptor;
      return target;
    }
    std::error_code code;
    const fs::path next = fs::read_symlink(target.path, code);
    if (code) return target;
    target.path = next.is_absolute() ? next.string() : folder_of(target.path) + "/" + next.string();
  }
  return Error{ErrorCode::kIo, "cannot write " + quoted(given) + ": too many symbolic links",
               "name the file itself"};
}

Result<Target> find_target(const std::string& path) {
  LATHE_TRY(Target target, follow(path));
  if (target.kind == Target::Kind::kDescriptor) return target;
  // Opened by the given path, so that the kernel refuses links that others have planted.
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat meta {};
  if (!fd.valid() && errno == ENOENT) return target;
  if (!fd.valid() || ::fstat(fd.get(), &meta) != 0)
    return errno_error("cannot write " + quoted(path), "name a file that you may write");
  if (S_ISDIR(meta.st_mode))
    return Error{ErrorCode::kIo, "cannot write " + quoted(path) + ": it is a folder", "name a file"};
  if (S_ISREG(meta.st_mode))
    target.present = meta.st_mode & kPermissionBits;
  else
    target.kind = S_ISSOCK(meta.st_mode) ? Target::Kind::kSocket : Target::Kind::kSpecial;
  return target;
}

/// Whether a folder forbids to replace a file which may still be written: it is another's, or the
/// file is mounted by itself.
bool forbids_replacement(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

Status write_in_place(const std::string& path, std::string_view bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid()) return errno_error("cannot write " + quoted(path), "name a file that you may write");
  return write_all(fd.get(), bytes, path);
}

/// A new file beside `path`, whose name becomes `temporary`.
UniqueFd create_beside(const std::string& path, std::string& temporary) {
  constexpr int kTries = 100;
  Rng rng(Seed::from_system());
  for (int i = 0; i < kTries; ++i) {
    temporary = fmt::format("{}.{:08x}", path, rng.below(std::uint64_t{1} << 32));
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd.valid() || errno != EEXIST) return fd;
  }
  return UniqueFd();
}

/// How a replacement ended; `reason` is the errno of a failure.
struct Replacement {
  Status status = Ok{};
  int reason = 0;
};

Replacement replace(const std::string& path, std::string_view bytes, std::optional<mode_t> permissions) {
  std::string temporary;
  const UniqueFd fd = create_beside(path, temporary);
  if (!fd.valid()) {
    const int reason = errno;
    return {errno_error("cannot create a file beside " + quoted(path),
                        "check that the folder exists and can be written"),
            reason};
  }
  Replacement replaced{write_all(fd.get(), bytes, path), errno};
  const auto then = [&](const char* action, const auto& step) {
    if (!replaced.status.ok() || step() == 0) return;
    replaced.reason = errno;
    replaced.status = errno_error(action + quoted(path), "check free disk space and permissions");
  };
  then("cannot set the permissions of ", [&] { return permissions ? ::fchmod(fd.get(), *permissions) : 0; });
  then("cannot sync ", [&] { return ::fsync(fd.get()); });
  then("cannot publish ", [&] { return ::rename(temporary.c_str(), path.c_str()); });
  if (!replaced.status.ok()) ::unlink(temporary.c_str());
  return replaced;
}

Status write_regular(const Target& target, std::string_view bytes) {
  Replacement replaced = replace(target.path, bytes, target.present);
  if (replaced.status.ok() || !target.present || !forbids_replacement(replaced.reason))
    return std::move(replaced.status);
  return write_in_place(target.path, bytes);
}

Status write_to_socket(const std::string& path, std::string_view bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (path.size() >= sizeof address.sun_path)
    return Error{ErrorCode::kIo, "the name of the socket " + quoted(path) + " is too long",
                 "name it by a shorter path"};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return errno_error("cannot connect to " + quoted(path), "check that a program listens there");
  return write_all(fd.get(), bytes, path);
}

Status write_to_descriptor(int descriptor, std::string_view bytes, const std::string& path) {
  if (descriptor == STDOUT_FILENO) std::fflush(stdout);  // what was printed before comes before
  const UniqueFd copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return errno_error("cannot write " + quoted(path), "name an open descriptor");
  return write_all(copy.get(), bytes, path);
}

}  // namespace

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      return errno_error("cannot write " + quoted(path), "check free disk space, limits and permissions");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return Ok{};
}

Status replace_file(const std::string& path, std::string_view bytes, std::optional<mode_t> permissions) {
  return replace(path, bytes, permissions).status;
}

Status write_output(const std::string& path, std::string_view bytes) {
  LATHE_TRY(const Target target, find_target(path));
  switch (target.kind) {
    case Target::Kind::kFile:
      return write_regular(target, bytes);
    case Target::Kind::kSpecial:
      return write_in_place(target.path, bytes);
    case Target::Kind::kSocket:
      return write_to_socket(target.path, bytes);
    case Target::Kind::kDescriptor:
      return write_to_descriptor(target.descriptor, bytes, path);
  }
  return Ok{};
}

Status check_output(const std::string& path) {
  LATHE_TRY(const Target target, find_target(path));
  const std::string hint = "make its folder, or name another file";
  if (target.kind == Target::Kind::kDescriptor) {
    if (::fcntl(target.descriptor, F_GETFD) < 0) return errno_error("cannot write " + quoted(path), hint);
    return Ok{};
  }
  const bool writable = ::access(target.path.c_str(), W_OK) == 0;
  const bool replaceable =
      target.kind == Target::Kind::kFile && ::access(folder_of(target.path).c_str(), W_OK) == 0;
  if (!writable && !replaceable) return errno_error("cannot write " + quoted(path), hint);
  return Ok{};
}

}  // namespace lathe
