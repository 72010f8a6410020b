#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// Reasons for a reduced clock, as bits of NVML's mask.
enum class Throttle : std::uint64_t {
  kPowerCap = 0x04,
  kHardwareSlowdown = 0x08,
  kThermal = 0x20,
  kHardwareThermal = 0x40,
  kPowerBrake = 0x80,
};

/// A GPU's sensors at one moment; 0 where it does not report a value.
struct DeviceReading {
  std::int64_t time_ns = 0;  ///< of steady_clock()
  double clock_mhz = 0;      ///< of the multiprocessors
  double memory_clock_mhz = 0;
  double power_w = 0;
  double celsius = 0;
  std::uint64_t throttle = 0;  ///< Throttle bits, and harmless others
};

/// Names of the reasons in a mask that matter: "power_cap", ...
std::vector<std::string> reasons_of(std::uint64_t throttle);

/// NVIDIA's management library, bound at run time. Needs no context on the GPU. Thread-safe.
class Nvml {
 public:
  /// `pci` is the GPU's bus address, "0000:17:00.0". kUnavailable if there is no library or it does
  /// not know the GPU.
  static Result<Nvml> open(const std::string& pci);

  /// Reads all sensors, which takes tens of microseconds.
  DeviceReading read() const;
  /// Reads the multiprocessors' clock only, which takes microseconds. Other fields are 0.
  DeviceReading read_clock() const;
  /// Energy since the driver was loaded. Takes milliseconds; the counter advances ten times a
  /// second. kUnavailable on older GPUs.
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

/// "clock_mhz", "memory_clock_mhz", "power_w" and "celsius" are medians, "clock_mhz_low" is the
/// minimum, "throttled.<reason>" the share of readings with that reason. Empty without readings.
std::map<std::string, double> summarise(const std::vector<DeviceReading>& readings);

/// Sensor readings of the GPU, taken at the ends of blocks. Thread-safe.
class DeviceLog {
 public:
  explicit DeviceLog(Nvml nvml) : nvml_(std::move(nvml)) {}

  /// Reads the clock; the other fields may be up to 20 ms old.
  DeviceReading take();
  std::map<std::string, double> between(std::int64_t begin_ns, std::int64_t end_ns) const;
  const Nvml& nvml() const { return nvml_; }

 private:
  Nvml nvml_;
  mutable std::mutex mutex_;
  DeviceReading whole_;                 ///< the latest complete one
  std::deque<DeviceReading> readings_;  ///< the latest, oldest first
};

}  // namespace lathe::cuda
