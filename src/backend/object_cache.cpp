#include "backend/object_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace lathe {
namespace {

namespace fs = std::filesystem;

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void remove_abandoned(const std::string& parent) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(parent, code)) {
    if (!entry.path().filename().string().starts_with("work-")) continue;
    const UniqueFd folder = open_folder(entry.path().string());
    if (folder.valid() && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), code);
  }
}

}  // namespace

std::string default_cache_folder() {
  if (const char* chosen = std::getenv("LATHE_CACHE"); chosen && *chosen) return chosen;
  if (::geteuid() == 0) return "/var/cache/lathe";
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/lathe";
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "/tmp") + "/.cache/lathe";
}

Digest folder_digest(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(folder, code)) {
    if (!entry.is_regular_file()) continue;
    auto bytes = read_file(entry.path().string());
    files[fs::relative(entry.path(), folder).string()] = bytes.ok() ? *std::move(bytes) : "";
  }
  Hasher hasher;
  for (const auto& [name, bytes] : files) hasher.add(name).add(bytes);
  return hasher.finish();
}

Status copy_folder(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::copy(from, to, fs::copy_options::recursive, code);
  if (code) return Error{ErrorCode::kIo, "cannot copy '" + from + "': " + code.message(), "reinstall Lathe"};
  return Ok{};
}

Result<WorkFolder> WorkFolder::make(const std::string& parent) {
  LATHE_CHECK_OK(make_directories(parent));
  // While the parent is locked, nobody takes the new folder for an abandoned one before it is
  // locked itself.
  const UniqueFd turn = open_folder(parent);
  if (!turn.valid() || ::flock(turn.get(), LOCK_EX) != 0) return errno_error("cannot lock '" + parent + "'");
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
  ObjectCache cache;
  cache.folder_ = folder;
  LATHE_TRY(cache.work_folder_, WorkFolder::make(folder));
  return cache;
}

std::optional<std::string> ObjectCache::find(const Digest& key) const {
  auto bytes = read_file(path(key));
  return bytes.ok() ? std::optional(*std::move(bytes)) : std::nullopt;
}

Result<std::string> ObjectCache::publish_folder(
    const std::string& name, const std::function<Status(const std::string& staging)>& fill) const {
  const std::string folder = folder_ + "/" + name, staging = work_folder() + "/staging";
  std::error_code code;
  if (fs::exists(folder, code)) return folder;
  LATHE_CHECK_OK(make_directories(staging));
  Status filled = fill(staging);
  if (filled.ok()) fs::rename(staging, folder, code);
  if (!filled.ok() || code) fs::remove_all(staging, code);  // another process published it first
  LATHE_CHECK_OK(std::move(filled));
  if (!fs::exists(folder, code)) return Error{ErrorCode::kIo, "cannot publish " + folder};
  return folder;
}

void ObjectCache::publish(const Digest& key, const std::string& bytes) const {
  const std::string draft = work_folder() + "/object-" + key.hex();
  if (write_file_atomically(draft, bytes).ok()) (void)::rename(draft.c_str(), path(key).c_str());
}

}  // namespace lathe
