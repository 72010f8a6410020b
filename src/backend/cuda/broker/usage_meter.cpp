#include "backend/cuda/broker/usage_meter.h"

#include "base/clock.h"

namespace lathe::cuda {

UsageMeter::Stage::Stage(UsageMeter& meter, const char* name)
    : meter_(meter), name_(name), begin_ns_(steady_clock().now_ns()) {}

UsageMeter::Stage::~Stage() {
  const double seconds = seconds_since(begin_ns_);
  std::lock_guard lock(meter_.mutex_);
  DeviceUsage::Stage& stage = meter_.total_.stages[name_];
  stage.seconds += seconds;
  ++stage.count;
}

void UsageMeter::add_block(double busy_ns) {
  std::lock_guard lock(mutex_);
  ++total_.blocks;
  total_.busy_seconds += busy_ns * 1e-9;
}

void UsageMeter::count(const char* stage) {
  std::lock_guard lock(mutex_);
  ++total_.stages[stage].count;
}

DeviceUsage UsageMeter::total() const {
  std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace lathe::cuda
