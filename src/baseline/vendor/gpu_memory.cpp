#include "baseline/vendor/gpu_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace lathe::vendor {
namespace {

constexpr int kRuns = 5;
constexpr float kLongMs = 20;  // further runs of what takes longer cost more than they tell

// CUDA's driver interface: its stable names.
struct Driver {
  using Event = struct EventTag*;
  int (*allocate)(unsigned long long*, std::size_t);
  int (*release)(unsigned long long);
  int (*fill)(unsigned long long, unsigned char, std::size_t);
  int (*synchronize)();
  int (*create)(Event*, unsigned);
  int (*destroy)(Event);
  int (*record)(Event, void* stream);
  int (*elapsed)(float* ms, Event begin, Event end);
};

template <class Function>
bool bind(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Driver> open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  Driver driver{};
  const bool whole =
      library && bind(driver.allocate, library, "cuMemAlloc_v2") &&
      bind(driver.release, library, "cuMemFree_v2") && bind(driver.fill, library, "cuMemsetD8_v2") &&
      bind(driver.synchronize, library, "cuCtxSynchronize") &&
      bind(driver.create, library, "cuEventCreate") && bind(driver.destroy, library, "cuEventDestroy_v2") &&
      bind(driver.record, library, "cuEventRecord") && bind(driver.elapsed, library, "cuEventElapsedTime");
  if (!whole) return Error{ErrorCode::kUnavailable, "no NVIDIA driver (libcuda.so.1)"};
  return driver;
}

const Result<Driver>& driver() {
  static const Result<Driver> opened = open_driver();
  return opened;
}

Error device_error(const char* what, int code) {
  return {ErrorCode::kUnavailable, std::string(what) + ": the driver's code " + std::to_string(code)};
}

}  // namespace

Result<GpuMemory> GpuMemory::create(std::size_t bytes) {
  if (!driver().ok()) return driver().error();
  GpuMemory memory;
  if (bytes == 0) return memory;
  if (const int code = driver()->allocate(&memory.address_, bytes); code != 0)
    return device_error("no device memory for a library call", code);
  memory.bytes_ = bytes;
  if (const int code = driver()->fill(memory.address_, 0, bytes); code != 0)
    return device_error("cannot zero a library's memory", code);
  return memory;
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (address_ != 0) driver()->release(address_);
}

Result<float> time_on_gpu(const std::function<int()>& enqueue) {
  if (!driver().ok()) return driver().error();
  Driver::Event begin = nullptr, end = nullptr;
  int code = driver()->create(&begin, 0);
  if (code == 0) code = driver()->create(&end, 0);
  int refused = enqueue();
  if (code == 0) code = driver()->synchronize();
  float best_ms = 0;
  for (int run = 0; run < kRuns && code == 0 && refused == 0; ++run) {
    driver()->record(begin, nullptr);
    refused = enqueue();
    driver()->record(end, nullptr);
    code = driver()->synchronize();
    float ms = 0;
    if (code == 0) code = driver()->elapsed(&ms, begin, end);
    best_ms = run == 0 ? ms : std::min(best_ms, ms);
    if (best_ms > kLongMs) break;
  }
  driver()->destroy(begin);
  driver()->destroy(end);
  if (code != 0) return device_error("a library call failed", code);
  if (refused != 0) return invalid("the library refuses: code " + std::to_string(refused));
  return best_ms;
}

}  // namespace lathe::vendor
