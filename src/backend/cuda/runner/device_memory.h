#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/runner/driver_api.h"
#include "base/fd.h"

namespace lathe::cuda {

/// A context on the first GPU, current in this thread.
Status open_device(const Driver& driver);

/// Physical memory mapped at addresses of its own, which the next allocation's never adjoin.
/// Nothing tells where imported memory lies: a kernel that looks for other calls' buffers faults.
/// Unmapped at the end of its life.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  /// `bytes` is a multiple of kAllocationBytes. kUnavailable when the device is full.
  static Result<DeviceMemory> create(const Driver& driver, std::uint64_t bytes);
  /// Maps what another process made and exported.
  static Result<DeviceMemory> import(const Driver& driver, const UniqueFd& handle, std::uint64_t bytes,
                                     Access access);
  /// A descriptor with which another process can import.
  Result<UniqueFd> share() const;

  DevicePointer address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  DeviceMemory(const Driver& driver, AllocationHandle handle, std::uint64_t bytes)
      : driver_(&driver), handle_(handle), bytes_(bytes) {}
  Status map(Access access, std::uint64_t places);

  const Driver* driver_ = nullptr;
  AllocationHandle handle_ = 0;
  std::uint64_t bytes_ = 0;
  DevicePointer range_ = 0;  ///< reserved: the memory somewhere in it, all else faults
  std::uint64_t range_bytes_ = 0;
  DevicePointer address_ = 0;
};

}  // namespace lathe::cuda
