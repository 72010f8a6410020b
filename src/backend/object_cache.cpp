#include "backend/object_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

namespace lathe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSealBytes = 64;  // of a digest in hexadecimal

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// The folder, locked against other processes until the descriptor is closed.
Result<UniqueFd> lock_folder(const std::string& path) {
  UniqueFd folder = open_folder(path);
  while (folder.valid() && ::flock(folder.get(), LOCK_EX) != 0)
    if (errno != EINTR) folder.reset();
  if (!folder.valid())
    return errno_error("cannot lock '" + path + "'", "set LATHE_CACHE to a folder of your own");
  return folder;
}

void remove_abandoned(const std::string& parent) {
  std::error_code code;
  for (fs::directory_iterator it(parent, code), end; !code && it != end; it.increment(code)) {
    if (!it->path().filename().string().starts_with("work-")) continue;
    std::error_code ignored;
    const UniqueFd folder = open_folder(it->path().string());
    if (folder.valid() && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(it->path(), ignored);
  }
}

/// Whoever may write to the cache chooses what is run in the name of a candidate.
Status make_private(const std::string& path) {
  constexpr const char* kRemedy = "set LATHE_CACHE to a folder of your own that nobody else may write to";
  if (const auto made = make_directories(path); !made.ok())
    return Error{made.error().code, made.error().message, kRemedy};
  const UniqueFd folder = open_folder(path);
  struct stat meta {};
  if (!folder.valid() || ::fstat(folder.get(), &meta) != 0)
    return errno_error("cannot use '" + path + "' as the cache", kRemedy);
  if (meta.st_uid != ::geteuid())
    return Error{ErrorCode::kUnavailable, "the cache '" + path + "' belongs to another user", kRemedy};
  if (meta.st_mode & S_IWOTH)
    return Error{ErrorCode::kUnavailable, "everybody may write to the cache '" + path + "'", kRemedy};
  if ((meta.st_mode & S_IWGRP) && ::fchmod(folder.get(), meta.st_mode & 07755) != 0)
    return errno_error("cannot make '" + path + "' private", kRemedy);
  return Ok{};
}

/// What stands before the bytes of a cached object: a file that was damaged or renamed has another.
std::string seal_of(const Digest& key, std::string_view bytes) {
  return Hasher().add(key.hex()).add(bytes).finish().hex();
}

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home && *home == '/') return home;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> text(1 << 14);
  if (::getpwuid_r(::geteuid(), &entry, text.data(), text.size(), &found) != 0 || !found) return {};
  return entry.pw_dir && *entry.pw_dir == '/' ? entry.pw_dir : "";
}

}  // namespace

Result<std::string> default_cache_folder() {
  if (const char* chosen = std::getenv("LATHE_CACHE"); chosen && *chosen) {
    std::error_code code;
    const fs::path absolute = fs::absolute(chosen, code);
    if (!code) return absolute.lexically_normal().string();
    return Error{ErrorCode::kIo, "cannot find LATHE_CACHE='" + std::string(chosen) + "': " + code.message(),
                 "name it by a path that begins with /"};
  }
  if (::geteuid() == 0) return std::string("/var/cache/lathe");
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/') return std::string(xdg) + "/lathe";
  if (const std::string home = home_folder(); !home.empty()) return home + "/.cache/lathe";
  return Error{ErrorCode::kUnavailable, "there is no place for the cache: this user has no home folder",
               "set LATHE_CACHE to a folder of your own"};
}

Digest folder_digest(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    auto bytes = read_file(it->path().string());
    files[it->path().lexically_relative(folder).string()] = bytes.ok() ? *std::move(bytes) : "";
  }
  Hasher hasher;
  for (const auto& [name, bytes] : files) hasher.add(name).add(bytes);
  return hasher.finish();
}

Status copy_folder(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::copy(from, to, fs::copy_options::recursive, code);
  if (code)
    return Error{ErrorCode::kIo, "cannot copy '" + from + "' to '" + to + "': " + code.message(),
                 "free some disk space, or set LATHE_CACHE; where the first is missing, reinstall Lathe"};
  return Ok{};
}

Result<WorkFolder> WorkFolder::make(const std::string& parent) {
  LATHE_CHECK_OK(make_directories(parent));
  // While the parent is locked, nobody takes the new folder for an abandoned one before it is
  // locked itself.
  LATHE_TRY(const UniqueFd turn, lock_folder(parent));
  remove_abandoned(parent);
  WorkFolder work;
  std::string path = parent + "/work-XXXXXX";
  // World-writable, because jailed compilers run as nobody and create their own folders in it.
  if (!::mkdtemp(path.data()) || ::chmod(path.c_str(), 01777) != 0)
    return errno_error("cannot make a folder in '" + parent + "'",
                       "check its permissions, or set LATHE_CACHE");
  work.lock_ = open_folder(path);
  if (!work.lock_.valid() || ::flock(work.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return errno_error("cannot lock '" + path + "'");
  work.path_ = std::move(path);
  return work;
}

WorkFolder::~WorkFolder() {
  std::error_code code;
  if (lock_.valid()) fs::remove_all(path_, code);
}

Result<ObjectCache> ObjectCache::open(const std::string& folder) {
  if (!folder.starts_with('/'))
    return invalid("the cache '" + folder + "' is named by a relative path", "name it from / on");
  LATHE_CHECK_OK(make_private(folder));
  ObjectCache cache;
  cache.folder_ = folder;
  LATHE_TRY(cache.work_folder_, WorkFolder::make(folder));
  return cache;
}

std::optional<std::string> ObjectCache::find(const Digest& key) const {
  auto sealed = read_file(path(key));
  if (!sealed.ok() || sealed->size() < kSealBytes) return std::nullopt;
  std::string bytes = sealed->substr(kSealBytes);
  if (!sealed->starts_with(seal_of(key, bytes))) return std::nullopt;
  return bytes;
}

Result<std::string> ObjectCache::publish_folder(
    const std::string& name, const std::function<Status(const std::string& staging)>& fill) const {
  const std::string folder = folder_ + "/" + name, staging = work_folder() + "/staging";
  const Digest seal = digest_of("folder " + name);
  LATHE_TRY(const UniqueFd turn, lock_folder(folder_));
  std::error_code code;
  if (fs::exists(folder, code)) {
    if (find(seal) == folder_digest(folder).hex()) return folder;
    const std::string damaged = work_folder() + "/damaged";  // others may be reading it
    fs::rename(folder, damaged, code);
    fs::remove_all(damaged, code);
  }
  fs::remove_all(staging, code);
  LATHE_CHECK_OK(make_directories(staging));
  LATHE_CHECK_OK(fill(staging));
  publish(seal, folder_digest(staging).hex());
  fs::rename(staging, folder, code);
  if (code)
    return Error{ErrorCode::kIo, "cannot publish '" + folder + "': " + code.message(),
                 "check its permissions, or set LATHE_CACHE"};
  return folder;
}

void ObjectCache::publish(const Digest& key, const std::string& bytes) const {
  const std::string draft = work_folder() + "/object-" + key.hex();
  if (write_file_atomically(draft, seal_of(key, bytes) + bytes).ok())
    (void)::rename(draft.c_str(), path(key).c_str());
}

}  // namespace lathe
