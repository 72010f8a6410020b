#include "backend/device_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace lathe {
namespace {

// The file's bytes: the first is the device, the others are places in the queue, by the time of
// arrival.
constexpr off_t kDevice = 0, kFirstPlace = 1, kLastPlace = std::numeric_limits<off_t>::max();
// Waiting costs a sixteenth of its own time at most, and wakes rarely while a kernel is timed.
constexpr std::int64_t kWaitsInNap = 16, kLeastNapNs = 10'000, kLongestNapNs = 5'000'000;
constexpr const char* kRemedy = "set LATHE_LOCKS to a folder of your own on a local disk";

/// Of the file's owner, group and others: which of them may come so far, the folder says.
constexpr mode_t kFileMode = 0666;

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorCode::kUnavailable, fmt::format("cannot lock devices in '{}': {}", path, why), kRemedy};
}

/// What keeps the folder from being this user's alone; empty for nothing. It is made if it is
/// missing.
std::string fault_of_own(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat meta {};
  if (!folder.valid() || ::fstat(folder.get(), &meta) != 0) return std::strerror(errno);
  if (meta.st_uid != ::geteuid()) return "it belongs to another user";
  if ((meta.st_mode & 0077) != 0) return "others may use it";
  return {};
}

UniqueFd open_file(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd file(::open(path.c_str(), kFlags));
  if (file.valid() || errno != ENOENT) return file;
  file = UniqueFd(::open(path.c_str(), kFlags | O_CREAT, kFileMode));
  if (file.valid()) ::fchmod(file.get(), kFileMode);  // past the umask
  return file;
}

struct flock range(short type, off_t begin, off_t length) {
  struct flock bytes {};
  bytes.l_type = type;
  bytes.l_start = begin;
  bytes.l_len = length;
  return bytes;
}

/// Sets or ends a lock without waiting. Sets errno.
bool set(const UniqueFd& file, short type, off_t byte) {
  struct flock bytes = range(type, byte, 1);
  return ::fcntl(file.get(), F_OFD_SETLK, &bytes) == 0;
}

bool is_held_by_another() { return errno == EAGAIN || errno == EACCES; }

/// Queues by the clock: the file's place, or nothing where it cannot be locked.
std::optional<off_t> take_place(const UniqueFd& file) {
  for (off_t place = kFirstPlace + steady_clock().now_ns();; ++place) {
    if (set(file, F_WRLCK, place)) return place;
    if (!is_held_by_another()) return std::nullopt;
  }
}

/// Whether nobody else has a place before this one.
bool is_first(const UniqueFd& file, off_t place) {
  struct flock earlier = range(F_WRLCK, kFirstPlace, place - kFirstPlace);
  return ::fcntl(file.get(), F_OFD_GETLK, &earlier) != 0 || earlier.l_type == F_UNLCK;
}

/// False once `cancel` is raised.
bool wait_for_turn(const UniqueFd& file, off_t place, short type, const CancelToken& cancel) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  while (!cancel.cancelled()) {
    if (is_first(file, place) && set(file, type, kDevice)) return true;
    const std::int64_t nap_ns = (steady_clock().now_ns() - begin_ns) / kWaitsInNap;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::clamp(nap_ns, kLeastNapNs, kLongestNapNs)));
  }
  return false;
}

}  // namespace

Result<std::string> device_lock_folder() {
  if (const char* chosen = std::getenv("LATHE_LOCKS"); chosen && *chosen) {
    std::error_code code;
    const std::string path = std::filesystem::absolute(chosen, code).lexically_normal().string();
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return unusable(path, std::strerror(errno));
    return path;
  }
  std::string faults;
  for (const char* parent : {"/run/lock", "/tmp"}) {
    const std::string path = fmt::format("{}/lathe-{}", parent, ::geteuid());
    const std::string fault = fault_of_own(path);
    if (fault.empty()) return path;
    faults += fmt::format("{}'{}': {}", faults.empty() ? "" : "; ", path, fault);
  }
  return Error{ErrorCode::kUnavailable, "there is no place for locks of devices: " + faults, kRemedy};
}

Result<DeviceLock> DeviceLock::open(const std::string& folder, const std::string& name) {
  std::string file_name = name;
  std::ranges::replace_if(
      file_name, [](unsigned char c) { return !std::isalnum(c) && c != '-'; }, '_');
  DeviceLock lock(folder + "/" + file_name + ".lock");
  const UniqueFd file = open_file(lock.path_);
  struct stat meta {};
  if (!file.valid() || ::fstat(file.get(), &meta) != 0) return unusable(lock.path_, std::strerror(errno));
  if (!S_ISREG(meta.st_mode)) return unusable(lock.path_, "it is no file");
  if (!take_place(file)) return unusable(lock.path_, std::strerror(errno));
  return lock;
}

DeviceLock::Hold DeviceLock::take(Mode mode, const CancelToken& cancel) {
  UniqueFd file = open_file(path_);
  if (!file.valid()) return {};
  const short type = mode == Mode::kShared ? F_RDLCK : F_WRLCK;
  if (is_first(file, kLastPlace) && set(file, type, kDevice)) return file;
  const std::optional<off_t> place = take_place(file);
  if (!place) return {};
  begin_to_wait();
  const bool taken = wait_for_turn(file, *place, type, cancel);
  end_waiting();
  if (!taken) return {};
  set(file, F_UNLCK, *place);
  return file;
}

void DeviceLock::begin_to_wait() {
  std::lock_guard lock(mutex_);
  if (waiting_++ == 0) waiting_since_ns_ = steady_clock().now_ns();
}

void DeviceLock::end_waiting() {
  std::lock_guard lock(mutex_);
  if (--waiting_ == 0) waited_ns_ += steady_clock().now_ns() - waiting_since_ns_;
}

double DeviceLock::waited_seconds() const {
  std::lock_guard lock(mutex_);
  const std::int64_t now_ns = waiting_ > 0 ? steady_clock().now_ns() - waiting_since_ns_ : 0;
  return static_cast<double>(waited_ns_ + now_ns) * 1e-9;
}

}  // namespace lathe
