#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backend/device_lock.h"
#include "base/cancel.h"

namespace lathe {

/// Says who may compute on a device now, and who may time. Any number of holders may compute side
/// by side; whoever times is alone. Phase-fair within a process: a timing waits at most for the
/// work that had begun or was waiting before it, work for at most one timing or, where stages take
/// turns, for those that were waiting when the first of them began, so neither starves.
/// Between the processes that share the device leases are given in the order in which they were
/// asked for.
///
/// A device chooses the grain at which its leases count. On a processor whole stages take turns,
/// for a stage's host work disturbs a timing too. On a GPU single blocks do, so that everything but
/// the timed microseconds of several evaluations overlaps.
class DeviceLane {
 public:
  enum class Grain { kStage, kBlock };
  enum class Use { kWork, kTiming };

  /// Of this object's users alone.
  explicit DeviceLane(Grain grain) : grain_(grain) {}
  /// Shared with all lanes of that name whose processes meet in device_lock_folder().
  DeviceLane(Grain grain, const std::string& device);
  /// The same in another folder.
  DeviceLane(Grain grain, const std::string& device, const Result<std::string>& folder);

  class Lease {
   public:
    Lease() = default;
    Lease(DeviceLane& lane, Use use) : lane_(&lane), use_(use) {}
    Lease(Lease&& other) noexcept
        : lane_(std::exchange(other.lane_, nullptr)),
          use_(other.use_),
          hold_(std::move(other.hold_)),
          waited_ns_(other.waited_ns_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(lane_, other.lane_);
      std::swap(use_, other.use_);
      std::swap(hold_, other.hold_);
      std::swap(waited_ns_, other.waited_ns_);
      return *this;
    }
    ~Lease() {
      hold_.reset();
      if (lane_) lane_->leave(use_);
    }
    bool held() const { return lane_ != nullptr; }
    /// For how long others of this process had the device.
    std::int64_t waited_ns() const { return waited_ns_; }

   private:
    friend class DeviceLane;
    DeviceLane* lane_ = nullptr;
    Use use_ = Use::kWork;
    DeviceLock::Hold hold_;
    std::int64_t waited_ns_ = 0;
  };

  /// Waits for its turn; returns at once, holding nothing, where this device's leases have another
  /// grain, and soon where `cancel` is raised while another process has the device. A thread that
  /// holds a lease must not take another one.
  Lease take(Use use, Grain grain, const CancelToken& cancel = {});

  /// Why other processes may use the device at the same time; empty where they take turns with this
  /// one.
  const std::string& unshared() const { return unshared_; }
  /// Seconds for which somebody here has waited for other processes, up to now.
  double waited_seconds() const { return lock_ ? lock_->waited_seconds() : 0; }

 private:
  void enter(Use use);
  void leave(Use use);

  const Grain grain_;
  std::optional<DeviceLock> lock_;
  std::string unshared_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int working_ = 0, work_waiting_ = 0, timings_waiting_ = 0;
  int admitted_ = 0;  ///< work that goes before the next timing: what waited when the last one ended
  int due_ = 0;       ///< timings that go before any work
  bool timing_ = false;
};

}  // namespace lathe
