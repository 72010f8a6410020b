#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/broker/nvml.h"

namespace lathe::cuda {

/// "clock_mhz", "memory_clock_mhz", "power_w", "celsius": medians; "clock_mhz_low"; "throttled.<reason>":
/// the share of readings. Empty without readings.
std::map<std::string, double> summarise(const std::vector<DeviceReading>& readings);

/// What the GPU said of itself at the ends of blocks. Thread-safe.
class DeviceLog {
 public:
  explicit DeviceLog(Nvml nvml) : nvml_(std::move(nvml)) {}

  /// The clock of this moment; the rest may be a few milliseconds old.
  DeviceReading take();
  std::map<std::string, double> between(std::int64_t begin_ns, std::int64_t end_ns) const;
  const Nvml& nvml() const { return nvml_; }

 private:
  Nvml nvml_;
  mutable std::mutex mutex_;
  DeviceReading whole_;                 ///< the last that says everything
  std::deque<DeviceReading> readings_;  ///< the latest, in the order of time
};

}  // namespace lathe::cuda
