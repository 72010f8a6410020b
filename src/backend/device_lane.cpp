#include "backend/device_lane.h"

#include "base/clock.h"

namespace lathe {

DeviceLane::DeviceLane(Grain grain, const std::string& device)
    : DeviceLane(grain, device, device_lock_folder()) {}

DeviceLane::DeviceLane(Grain grain, const std::string& device, const Result<std::string>& folder)
    : grain_(grain) {
  auto lock = folder.ok() ? DeviceLock::open(*folder, device) : Result<DeviceLock>(folder.error());
  if (lock.ok())
    lock_.emplace(*std::move(lock));
  else
    unshared_ = lock.error().to_string();
}

DeviceLane::Lease DeviceLane::take(Use use, Grain grain, const CancelToken& cancel) {
  if (grain != grain_) return {};
  const std::int64_t begin_ns = steady_clock().now_ns();
  enter(use);
  Lease entered(*this, use);
  entered.waited_ns_ = steady_clock().now_ns() - begin_ns;
  if (!lock_) return entered;
  entered.hold_ =
      lock_->take(use == Use::kTiming ? DeviceLock::Mode::kAlone : DeviceLock::Mode::kShared, cancel);
  if (!entered.hold_.valid() && cancel.cancelled()) return {};
  return entered;
}

void DeviceLane::enter(Use use) {
  std::unique_lock lock(mutex_);
  if (use == Use::kTiming) {
    ++timings_waiting_;
    changed_.wait(lock, [&] { return !timing_ && working_ == 0 && admitted_ == 0; });
    --timings_waiting_;
    timing_ = true;
    if (due_ == 0) due_ = grain_ == Grain::kStage ? 1 + timings_waiting_ : 1;
    return;
  }
  ++work_waiting_;
  changed_.wait(lock, [&] { return !timing_ && (timings_waiting_ == 0 || admitted_ > 0); });
  --work_waiting_;
  if (admitted_ > 0) --admitted_;
  ++working_;
}

void DeviceLane::leave(Use use) {
  std::lock_guard lock(mutex_);
  if (use == Use::kTiming) {
    timing_ = false;
    if (--due_ == 0) admitted_ = work_waiting_;
  } else {
    --working_;
  }
  changed_.notify_all();
}

}  // namespace lathe
