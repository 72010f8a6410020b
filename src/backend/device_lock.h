#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/cancel.h"
#include "base/fd.h"

namespace lathe {

/// Where this user's processes meet: $LATHE_LOCKS, else "lathe-<uid>" in /run/lock or /tmp, which
/// must belong to the user and be closed to others, for who may open a lock can hold it for ever. A
/// folder that LATHE_LOCKS names is for whoever may write to it. Made if it is missing. Errors:
/// kUnavailable, no such place.
Result<std::string> device_lock_folder();

/// A device among processes: any number may work on it side by side, or one alone, in the order in
/// which they came. Locks are the kernel's, of bytes of a file, each through a descriptor of its
/// own that no child gets: they end with their holder, however it ends, and two of one process
/// exclude each other like those of two processes. Thread-safe.
class DeviceLock {
 public:
  /// `name` is the file's; what no file's name may have is replaced. Errors: kUnavailable where
  /// files cannot be made or locked.
  static Result<DeviceLock> open(const std::string& folder, const std::string& name);
  DeviceLock(DeviceLock&& other) noexcept : path_(std::move(other.path_)) {}

  /// Holds it until it is destroyed.
  using Hold = UniqueFd;
  enum class Mode { kShared, kAlone };
  /// Waits for its turn. Not valid once `cancel` is raised, or where the file cannot be locked any
  /// more: better a disturbed timing than none.
  Hold take(Mode mode, const CancelToken& cancel);

  /// Seconds for which at least one thread has waited for another process, up to now.
  double waited_seconds() const;
  const std::string& path() const { return path_; }

 private:
  explicit DeviceLock(std::string path) : path_(std::move(path)) {}
  void begin_to_wait();
  void end_waiting();

  std::string path_;
  mutable std::mutex mutex_;
  int waiting_ = 0;
  std::int64_t waiting_since_ns_ = 0, waited_ns_ = 0;
};

}  // namespace lathe
