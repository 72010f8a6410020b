#pragma once

#include <vector>

#include "backend/cuda/runner/driver_api.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {

/// Overwrites shared memory and registers, in which a candidate's block could leave data for its
/// next one.
class Scrubber {
 public:
  Scrubber() = default;
  /// `cubin` holds kScrubKernel.
  static Result<Scrubber> load(const Driver& driver, const UniqueFd& cubin);
  Scrubber(Scrubber&& other) noexcept { *this = std::move(other); }
  Scrubber& operator=(Scrubber&& other) noexcept;
  ~Scrubber();

  Status run(std::uint8_t poison, Stream stream) const;
  Status touch(const std::vector<DevicePointer>& pages, Stream stream) const;

 private:
  explicit Scrubber(const Driver& driver) : driver_(&driver) {}

  const Driver* driver_ = nullptr;
  Module module_ = nullptr;
  Function scrub_ = nullptr, touch_ = nullptr;
  int multiprocessors_ = 0, shared_bytes_ = 0;
};

}  // namespace lathe::cuda
