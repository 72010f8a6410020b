#include "backend/cuda/broker/device_log.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/statistics.h"

namespace lathe::cuda {
namespace {

constexpr int kSmClock = 1, kMemoryClock = 2, kGpuSensor = 0;

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

Error unavailable(std::string what) {
  return {ErrorCode::kUnavailable, std::move(what),
          "clocks, power and energy come from NVML, a part of NVIDIA's driver"};
}

constexpr std::size_t kMostReadings = 1 << 15;
// Power and temperature change slowly, and reading them takes longer than reading the clock.
constexpr std::int64_t kFreshNs = 20'000'000;
constexpr std::array<std::pair<Throttle, const char*>, 5> kReasons{
    {{Throttle::kPowerCap, "throttled.power_cap"},
     {Throttle::kHardwareSlowdown, "throttled.hardware_slowdown"},
     {Throttle::kThermal, "throttled.thermal"},
     {Throttle::kHardwareThermal, "throttled.hardware_thermal"},
     {Throttle::kPowerBrake, "throttled.power_brake"}}};

}  // namespace

std::vector<std::string> reasons_of(std::uint64_t throttle) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons)
    if ((throttle & static_cast<std::uint64_t>(bit)) != 0)
      names.push_back(std::string(name).substr(std::string_view("throttled.").size()));
  return names;
}

Result<Nvml> Nvml::open(const std::string& pci) {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return unavailable("no NVML (libnvidia-ml.so.1)");
  const auto init = find<Call<>>(library, "nvmlInit_v2");
  const auto by_place = find<Call<const char*, Device*>>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto version = find<Call<char*, unsigned>>(library, "nvmlSystemGetDriverVersion");
  if (!init || !by_place || !version) return unavailable("NVML lacks functions that Lathe needs");
  Nvml nvml;
  if (const Code code = init(); code != 0)
    return unavailable(fmt::format("NVML fails to initialise: {}", code));
  if (const Code code = by_place(pci.c_str(), &nvml.device_); code != 0)
    return unavailable(fmt::format("NVML does not know the GPU at {}: {}", pci, code));
  char text[96] = {};
  if (version(text, sizeof text - 1) == 0) nvml.driver_version_ = text;
  nvml.clock_ = find<decltype(nvml.clock_)>(library, "nvmlDeviceGetClockInfo");
  nvml.power_ = find<decltype(nvml.power_)>(library, "nvmlDeviceGetPowerUsage");
  nvml.temperature_ = find<decltype(nvml.temperature_)>(library, "nvmlDeviceGetTemperature");
  nvml.throttle_ = find<decltype(nvml.throttle_)>(library, "nvmlDeviceGetCurrentClocksThrottleReasons");
  nvml.energy_ = find<decltype(nvml.energy_)>(library, "nvmlDeviceGetTotalEnergyConsumption");
  return nvml;
}

DeviceReading Nvml::read_clock() const {
  DeviceReading reading;
  reading.time_ns = steady_clock().now_ns();
  unsigned value = 0;
  if (clock_ && clock_(device_, kSmClock, &value) == 0) reading.clock_mhz = value;
  return reading;
}

DeviceReading Nvml::read() const {
  DeviceReading reading = read_clock();
  unsigned value = 0;
  unsigned long long bits = 0;
  if (clock_ && clock_(device_, kMemoryClock, &value) == 0) reading.memory_clock_mhz = value;
  if (power_ && power_(device_, &value) == 0) reading.power_w = value * 1e-3;
  if (temperature_ && temperature_(device_, kGpuSensor, &value) == 0) reading.celsius = value;
  if (throttle_ && throttle_(device_, &bits) == 0) reading.throttle = bits;
  return reading;
}

Result<double> Nvml::joules() const {
  unsigned long long millijoules = 0;
  if (!energy_ || energy_(device_, &millijoules) != 0) return unavailable("this GPU has no energy counter");
  return static_cast<double>(millijoules) * 1e-3;
}

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
  for (const auto& entry : kReasons) {
    const auto bit = static_cast<std::uint64_t>(entry.first);
    const auto throttled =
        std::count_if(readings.begin(), readings.end(),
                      [bit](const DeviceReading& reading) { return (reading.throttle & bit) != 0; });
    if (throttled > 0)
      state[entry.second] = static_cast<double>(throttled) / static_cast<double>(readings.size());
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
