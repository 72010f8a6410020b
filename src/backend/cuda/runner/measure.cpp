#include "backend/cuda/runner/measure.h"

#include <algorithm>

#include "backend/cuda/runner/device_list.h"
#include "backend/cuda/runner/device_memory.h"
#include "backend/cuda/wire/keeper_kernels.h"

namespace lathe::cuda {
namespace {

constexpr int kRepeats = 12;
constexpr std::uint64_t kDramBytes = 1 << 30;
constexpr long long kSteps = 1 << 14, kL2Rounds = 64;
constexpr unsigned kMeasureThreads = 256;

/// Launches trusted kernels and keeps the shortest time.
class Meter {
 public:
  static Result<Meter> make(const Driver& driver, Module kernels) {
    Meter meter(driver, kernels);
    LATHE_CHECK_OK(check(driver.stream_create(&meter.stream_, 1), "cannot make a stream"));
    LATHE_CHECK_OK(check(driver.event_create(&meter.begin_, 0), "cannot make an event"));
    LATHE_CHECK_OK(check(driver.event_create(&meter.end_, 0), "cannot make an event"));
    return meter;
  }

  /// Seconds per launch, the best of kRepeats.
  Result<double> best_seconds(const char* kernel, unsigned blocks, void** arguments) const {
    Function function = nullptr;
    LATHE_CHECK_OK(check(driver_->module_function(&function, module_, kernel), kernel));
    LaunchConfig config;
    config.grid[0] = blocks;
    config.block[0] = kMeasureThreads;
    config.stream = stream_;
    float least_ms = 1e30f;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      driver_->event_record(begin_, stream_);
      LATHE_CHECK_OK(check(driver_->launch(&config, function, arguments, nullptr), kernel));
      driver_->event_record(end_, stream_);
      LATHE_CHECK_OK(check(driver_->stream_synchronize(stream_), kernel));
      float ms = 0;
      LATHE_CHECK_OK(check(driver_->event_elapsed_ms(&ms, begin_, end_), kernel));
      least_ms = std::min(least_ms, ms);
    }
    return least_ms * 1e-3;
  }

 private:
  Meter(const Driver& driver, Module kernels) : driver_(&driver), module_(kernels) {}

  const Driver* driver_;
  Module module_ = nullptr;
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
};

/// The higher bandwidth of reading and of copying `bytes`.
Result<double> bandwidth(const Meter& meter, DevicePointer from, DevicePointer to, std::uint64_t bytes,
                         unsigned blocks, long long rounds) {
  auto count = static_cast<long long>(bytes / 16);
  void* arguments[] = {&from, &to, &count, &rounds};
  LATHE_TRY(const double reading, meter.best_seconds("stream_read", blocks, arguments));
  LATHE_TRY(const double copying, meter.best_seconds("stream_copy", blocks, arguments));
  const double moved = static_cast<double>(bytes) * static_cast<double>(rounds);
  return std::max(moved / reading, 2 * moved / copying);
}

}  // namespace

Result<std::vector<double>> measure_device(const Driver& driver, Module kernels, const DeviceFacts& facts) {
  LATHE_TRY(const Meter meter, Meter::make(driver, kernels));
  LATHE_TRY(const DeviceMemory from, DeviceMemory::create(driver, kDramBytes));
  LATHE_TRY(const DeviceMemory to, DeviceMemory::create(driver, kDramBytes));
  driver.set_bytes(from.address(), 0x3c, kDramBytes, nullptr);
  driver.context_synchronize();
  const auto blocks = static_cast<unsigned>(facts.multiprocessors * 8);
  LATHE_TRY(const double dram, bandwidth(meter, from.address(), to.address(), kDramBytes, blocks, 1));
  // Every thread makes whole steps of four vectors; a third of the cache leaves room for the copy.
  const std::uint64_t step = std::uint64_t{blocks} * kMeasureThreads * 64;
  const std::uint64_t in_l2 =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(facts.l2_bytes) / 3 / step) * step;
  LATHE_TRY(const double l2, bandwidth(meter, from.address(), to.address(), in_l2, blocks, kL2Rounds));
  DevicePointer out = to.address();
  long long steps = kSteps;
  void* arguments[] = {&out, &steps};
  LATHE_TRY(const double seconds, meter.best_seconds("multiply_add", blocks, arguments));
  const double operations = 2.0 * kChains * static_cast<double>(kSteps) * kMeasureThreads * blocks;
  int clock_khz = 0;
  driver.device_attribute(&clock_khz, DeviceAttribute::kClockKhz, 0);
  const double tensor =
      tensor_operations(facts) * static_cast<double>(facts.multiprocessors) * 1e3 * clock_khz;
  return std::vector<double>{dram, std::max(dram, l2), operations / seconds, tensor};
}

}  // namespace lathe::cuda
