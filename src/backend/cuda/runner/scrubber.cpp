#include "backend/cuda/runner/scrubber.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "backend/cuda/wire/scrub_kernel.h"

namespace lathe::cuda {
namespace {

// Thread blocks per multiprocessor: one that ends early must not leave another without.
constexpr unsigned kRounds = 4;
constexpr unsigned kScrubThreads = 1024, kTouchThreads = 256, kCleanThreads = 512;

}  // namespace

Result<Scrubber> Scrubber::load(const Driver& driver, const UniqueFd& cubin) {
  const off_t size = ::lseek(cubin.get(), 0, SEEK_END);
  LATHE_TRY(const Mapping image, map_shared(cubin, static_cast<std::size_t>(size), false));
  Scrubber scrubber(driver);
  LATHE_CHECK_OK(check(driver.module_load(&scrubber.module_, image.data()), "cannot load the scrubber"));
  LATHE_CHECK_OK(check(driver.module_function(&scrubber.scrub_, scrubber.module_, "scrub"), "scrub"));
  LATHE_CHECK_OK(check(driver.module_function(&scrubber.touch_, scrubber.module_, "touch"), "touch"));
  LATHE_CHECK_OK(check(driver.module_function(&scrubber.clean_, scrubber.module_, "clean"), "clean"));
  driver.device_attribute(&scrubber.multiprocessors_, DeviceAttribute::kMultiprocessors, 0);
  driver.device_attribute(&scrubber.shared_bytes_, DeviceAttribute::kSharedOptIn, 0);
  LATHE_CHECK_OK(check(driver.set_function_attribute(scrubber.scrub_, FunctionAttribute::kMaxDynamicShared,
                                                     scrubber.shared_bytes_),
                       "cannot prepare the scrubber"));
  return scrubber;
}

Scrubber& Scrubber::operator=(Scrubber&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(module_, other.module_);
  std::swap(scrub_, other.scrub_);
  std::swap(touch_, other.touch_);
  std::swap(clean_, other.clean_);
  std::swap(multiprocessors_, other.multiprocessors_);
  std::swap(shared_bytes_, other.shared_bytes_);
  return *this;
}

Scrubber::~Scrubber() {
  if (module_) driver_->module_unload(module_);
}

Status Scrubber::run(std::uint8_t poison, Stream stream) const {
  unsigned pattern = poison * 0x01010101u, bytes = static_cast<unsigned>(shared_bytes_);
  void* arguments[] = {&pattern, &bytes};
  LaunchConfig config;
  config.grid[0] = kRounds * static_cast<unsigned>(multiprocessors_);
  config.block[0] = kScrubThreads;
  config.shared_bytes = bytes;
  config.stream = stream;
  return check(driver_->launch(&config, scrub_, arguments, nullptr), "cannot scrub");
}

/// A kernel is loaded when it is first asked for, and the driver then reserves its local memory.
Status Scrubber::run_local(int bytes, std::uint8_t poison, Stream stream) const {
  const auto enough = std::ranges::find_if(kScrubbedLocalBytes, [&](int size) { return size >= bytes; });
  if (enough == std::end(kScrubbedLocalBytes)) return Error{ErrorCode::kInternal, "too much local memory"};
  Function scrub = nullptr;
  const std::string name = "scrub_local_" + std::to_string(*enough);
  LATHE_CHECK_OK(check(driver_->module_function(&scrub, module_, name.c_str()), name.c_str()));
  unsigned pattern = poison * 0x01010101u;
  void* arguments[] = {&pattern};
  LaunchConfig config;
  config.grid[0] = 2 * kRounds * static_cast<unsigned>(multiprocessors_);
  config.block[0] = kScrubThreads;
  config.stream = stream;
  return check(driver_->launch(&config, scrub, arguments, nullptr), "cannot scrub local memory");
}

Status Scrubber::clean_l2(DevicePointer memory, std::uint64_t bytes, Stream stream) const {
  std::uint64_t count = bytes / 16;
  void* arguments[] = {&memory, &count};
  LaunchConfig config;
  config.grid[0] = kRounds * static_cast<unsigned>(multiprocessors_);
  config.block[0] = kCleanThreads;
  config.stream = stream;
  return check(driver_->launch(&config, clean_, arguments, nullptr), "cannot clean the L2");
}

Status Scrubber::touch(const std::vector<DevicePointer>& pages, Stream stream) const {
  for (std::size_t first = 0; first < pages.size(); first += TouchedPages::kMost) {
    TouchedPages some;
    some.count = std::min<std::size_t>(TouchedPages::kMost, pages.size() - first);
    std::copy_n(pages.begin() + static_cast<std::ptrdiff_t>(first), some.count, some.addresses);
    void* arguments[] = {&some};
    LaunchConfig config;
    config.grid[0] = kRounds * static_cast<unsigned>(multiprocessors_);
    config.block[0] = kTouchThreads;
    config.stream = stream;
    LATHE_CHECK_OK(check(driver_->launch(&config, touch_, arguments, nullptr), "cannot touch memory"));
  }
  return Ok{};
}

}  // namespace lathe::cuda
