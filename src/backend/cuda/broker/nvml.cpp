#include "backend/cuda/broker/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/clock.h"

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

}  // namespace

Result<Nvml> Nvml::open(const std::string& pci) {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return unavailable("no NVML (libnvidia-ml.so.1)");
  const auto init = find<Call<>>(library, "nvmlInit_v2");
  const auto by_place = find<Call<const char*, Device*>>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto version = find<Call<char*, unsigned>>(library, "nvmlSystemGetDriverVersion");
  if (!init || !by_place || !version) return unavailable("NVML lacks functions that Lathe needs");
  Nvml nvml;
  if (const Code code = init(); code != 0) return unavailable(fmt::format("NVML does not start: {}", code));
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
  if (!energy_ || energy_(device_, &millijoules) != 0) return unavailable("this GPU counts no energy");
  return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace lathe::cuda
