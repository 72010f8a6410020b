#include "backend/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

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

Result<WorkFolder> WorkFolder::make(const std::string& parent) {
  LATHE_CHECK_OK(make_directories(parent));
  // Others look for abandoned folders only when this one has its lock.
  const UniqueFd turn = open_folder(parent);
  if (!turn.valid() || ::flock(turn.get(), LOCK_EX) != 0) return errno_error("cannot lock '" + parent + "'");
  remove_abandoned(parent);
  WorkFolder work;
  std::string path = parent + "/work-XXXXXX";
  // Jailed compilers, which are nobody, make their own folders in it.
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

}  // namespace lathe
