#pragma once

#include <vector>

#include "backend/cuda/runner/driver_api.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// Brings the device into the state in which a block begins: what the one before left behind in
/// shared memory and registers overwritten, pages touched, the L2 clean.
class Scrubber {
 public:
  Scrubber() = default;
  /// `cubin` holds kScrubKernel.
  static Result<Scrubber> load(const Driver& driver, const UniqueFd& cubin);
  Scrubber(Scrubber&& other) noexcept { *this = std::move(other); }
  Scrubber& operator=(Scrubber&& other) noexcept;
  ~Scrubber();

  Status run(std::uint8_t poison, Stream stream) const;
  /// The local memory of all threads that there may be, `bytes` for each of them or more.
  Status run_local(int bytes, std::uint8_t poison, Stream stream) const;
  Status touch(const std::vector<DevicePointer>& pages, Stream stream) const;
  /// Reads memory that is larger than the L2.
  Status clean_l2(DevicePointer memory, std::uint64_t bytes, Stream stream) const;

 private:
  explicit Scrubber(const Driver& driver) : driver_(&driver) {}

  const Driver* driver_ = nullptr;
  Module module_ = nullptr;
  Function scrub_ = nullptr, touch_ = nullptr, clean_ = nullptr;
  int multiprocessors_ = 0, shared_bytes_ = 0;
};

}  // namespace lathe::cuda
