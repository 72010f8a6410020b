#include "backend/cuda/broker/usage_meter.h"

#include "base/clock.h"

namespace lathe::cuda {

UsageMeter::Stage::Stage(UsageMeter& meter, const char* name)
    : meter_(meter), name_(name), begin_ns_(steady_clock().now_ns()) {}

UsageMeter::Stage::~Stage() { meter_.add(name_, static_cast<double>(steady_clock().now_ns() - begin_ns_)); }

void UsageMeter::add_block(double busy_ns) {
  std::lock_guard lock(mutex_);
  ++total_.blocks;
  total_.busy_seconds += busy_ns * 1e-9;
}

void UsageMeter::add(const char* name, double ns) {
  std::lock_guard lock(mutex_);
  DeviceUsage::Stage& stage = total_.stages[name];
  stage.seconds += ns * 1e-9;
  ++stage.count;
}

DeviceUsage UsageMeter::total() const {
  std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace lathe::cuda
