#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace lathe {

/// Says who may compute on a device now, and who may time. Any number of holders may compute side by side;
/// whoever times is alone. Phase-fair: a timing waits at most for the work that had begun or was waiting
/// before it, work for at most one timing, so neither starves.
///
/// A device chooses the grain at which its leases count. On a processor whole stages take turns, for a
/// stage's host work disturbs a timing too. On a GPU single blocks do, so that everything but the timed
/// microseconds of several evaluations overlaps.
class DeviceLane {
 public:
  enum class Grain { kStage, kBlock };
  enum class Use { kWork, kTiming };

  explicit DeviceLane(Grain grain) : grain_(grain) {}

  class Lease {
   public:
    Lease() = default;
    Lease(DeviceLane& lane, Use use) : lane_(&lane), use_(use) {}
    Lease(Lease&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)), use_(other.use_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(lane_, other.lane_);
      std::swap(use_, other.use_);
      return *this;
    }
    ~Lease() {
      if (lane_) lane_->leave(use_);
    }

   private:
    DeviceLane* lane_ = nullptr;
    Use use_ = Use::kWork;
  };

  /// Waits for its turn; returns at once, holding nothing, where this device's leases have another grain.
  /// A thread that holds a lease must not take another one.
  Lease take(Use use, Grain grain) {
    if (grain != grain_) return {};
    enter(use);
    return {*this, use};
  }

 private:
  void enter(Use use) {
    std::unique_lock lock(mutex_);
    if (use == Use::kTiming) {
      ++timings_waiting_;
      changed_.wait(lock, [&] { return !timing_ && working_ == 0 && admitted_ == 0; });
      --timings_waiting_;
      timing_ = true;
      return;
    }
    ++work_waiting_;
    changed_.wait(lock, [&] { return !timing_ && (timings_waiting_ == 0 || admitted_ > 0); });
    --work_waiting_;
    if (admitted_ > 0) --admitted_;
    ++working_;
  }

  void leave(Use use) {
    std::lock_guard lock(mutex_);
    if (use == Use::kTiming) {
      timing_ = false;
      admitted_ = work_waiting_;
    } else {
      --working_;
    }
    changed_.notify_all();
  }

  const Grain grain_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int working_ = 0, work_waiting_ = 0, timings_waiting_ = 0;
  int admitted_ = 0;  ///< work that goes before the next timing: what waited when the last one ended
  bool timing_ = false;
};

}  // namespace lathe
