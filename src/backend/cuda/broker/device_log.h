#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// Why a GPU's clock is lower than it could be.
enum class Throttle : std::uint64_t {
  kPowerCap = 0x04,
  kHardwareSlowdown = 0x08,
  kThermal = 0x20,
  kHardwareThermal = 0x40,
  kPowerBrake = 0x80,
};

/// What a GPU says of itself at one moment; 0 where it does not.
struct DeviceReading {
  std::int64_t time_ns = 0;  ///< of steady_clock()
  double clock_mhz = 0;      ///< of the multiprocessors
  double memory_clock_mhz = 0;
  double power_w = 0;
  double celsius = 0;
  std::uint64_t throttle = 0;  ///< Throttle bits, and others that are no trouble
};

/// NVIDIA's management library, found at run time. It needs no context on the GPU. Thread-safe.
class Nvml {
 public:
  /// `pci`: the GPU's place, "0000:17:00.0". kUnavailable where there is no library, or it does not know it.
  static Result<Nvml> open(const std::string& pci);

  /// Tens of microseconds.
  DeviceReading read() const;
  /// Its clock alone: microseconds. The rest is 0.
  DeviceReading read_clock() const;
  /// Since the driver was loaded. Milliseconds; changes ten times a second. kUnavailable on older GPUs.
  Result<double> joules() const;
  const std::string& driver_version() const { return driver_version_; }

 private:
  using Code = int;
  using Device = struct DeviceTag*;
  template <class... Arguments>
  using Call = Code (*)(Arguments...);

  Device device_ = nullptr;
  std::string driver_version_;
  Call<Device, int, unsigned*> clock_ = nullptr;
  Call<Device, unsigned*> power_ = nullptr;
  Call<Device, int, unsigned*> temperature_ = nullptr;
  Call<Device, unsigned long long*> throttle_ = nullptr;
  Call<Device, unsigned long long*> energy_ = nullptr;
};

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
