#include "backend/cuda/broker/device_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/statistics.h"

namespace lathe::cuda {
namespace {

constexpr std::size_t kMostReadings = 1 << 15;
constexpr std::int64_t kFreshNs = 20'000'000;  // power and temperature move slowly, and cost more to read
constexpr std::array<std::pair<Throttle, const char*>, 5> kReasons{
    {{Throttle::kPowerCap, "throttled.power_cap"},
     {Throttle::kHardwareSlowdown, "throttled.hardware_slowdown"},
     {Throttle::kThermal, "throttled.thermal"},
     {Throttle::kHardwareThermal, "throttled.hardware_thermal"},
     {Throttle::kPowerBrake, "throttled.power_brake"}}};

}  // namespace

std::map<std::string, double> summarise(const std::vector<DeviceReading>& readings) {
  std::map<std::string, double> state;
  if (readings.empty()) return state;
  const auto values = [&](double DeviceReading::*field) {
    std::vector<double> known;
    for (const DeviceReading& reading : readings)
      if (reading.*field > 0) known.push_back(reading.*field);
    return known;
  };
  const auto add_median = [&](const char* name, double DeviceReading::*field) {
    if (const auto known = values(field); !known.empty()) state[name] = median(known);
  };
  add_median("clock_mhz", &DeviceReading::clock_mhz);
  add_median("memory_clock_mhz", &DeviceReading::memory_clock_mhz);
  add_median("power_w", &DeviceReading::power_w);
  add_median("celsius", &DeviceReading::celsius);
  if (const auto clocks = values(&DeviceReading::clock_mhz); !clocks.empty())
    state["clock_mhz_low"] = *std::min_element(clocks.begin(), clocks.end());
  for (const auto& [reason, name] : kReasons) {
    const auto throttled = std::count_if(readings.begin(), readings.end(), [&](const DeviceReading& reading) {
      return (reading.throttle & static_cast<std::uint64_t>(reason)) != 0;
    });
    if (throttled > 0) state[name] = static_cast<double>(throttled) / static_cast<double>(readings.size());
  }
  return state;
}

DeviceReading DeviceLog::take() {
  std::lock_guard lock(mutex_);
  const DeviceReading now = nvml_.read_clock();
  if (now.time_ns - whole_.time_ns > kFreshNs) whole_ = nvml_.read();
  DeviceReading reading = whole_;
  reading.time_ns = now.time_ns;
  reading.clock_mhz = now.clock_mhz;
  readings_.push_back(reading);
  if (readings_.size() > kMostReadings) readings_.pop_front();
  return reading;
}

std::map<std::string, double> DeviceLog::between(std::int64_t begin_ns, std::int64_t end_ns) const {
  std::vector<DeviceReading> chosen;
  std::lock_guard lock(mutex_);
  for (const DeviceReading& reading : readings_)
    if (begin_ns <= reading.time_ns && reading.time_ns <= end_ns) chosen.push_back(reading);
  return summarise(chosen);
}

}  // namespace lathe::cuda
