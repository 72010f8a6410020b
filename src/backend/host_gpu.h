#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/fd.h"

namespace lathe {

/// Memory on a GPU through which a process with host code of its own gets a call's inputs and gives
/// its outputs: two windows that it maps, and behind each a copy that it never sees. Not
/// thread-safe.
class DeviceWindows {
 public:
  virtual ~DeviceWindows() = default;

  /// Descriptors with which another process imports the inputs' window and the outputs', and their
  /// sizes.
  virtual const std::array<UniqueFd, 2>& handles() const = 0;
  virtual std::array<std::size_t, 2> bytes() const = 0;
  static constexpr std::uint64_t kNoTrial = ~std::uint64_t{0};
  /// Brings the next call's inputs from host memory to the device, out of sight, and fills the
  /// outputs' window with `poison`. Those of a `trial` stay on the device, as far as memory for
  /// that goes: where it has() them, host memory is not read again.
  virtual Status stage(std::uint8_t poison, std::uint64_t trial) = 0;
  virtual bool has(std::uint64_t trial) const = 0;
  /// What was staged comes into the window of inputs.
  virtual Status give() = 0;
  /// What the outputs' window holds is taken out of reach. Returns once it is: work of the other
  /// process that still runs on the device delays it.
  virtual Status take() = 0;
  /// What was taken comes to `offset` of the outputs' host memory.
  virtual Status fetch(std::size_t offset) = 0;
  /// What give() and take() each last on a device that does nothing else, and its free memory.
  struct Costs {
    double give_ns = 0, take_ns = 0;
    int rounds = 0;  ///< measured, of which these are the least
    double free_bytes = 0;
  };
  virtual Result<Costs> measure() = 0;
};

/// A GPU as a device of the HOST tier sees it: it holds memory, and whoever maps that computes.
class HostGpu {
 public:
  virtual ~HostGpu() = default;
  /// Its name, uuid, driver, facts and memory_bytes; the rest is the backend's.
  virtual const DeviceInfo& device() const = 0;
  /// What its data sheet promises, which no program exceeds.
  virtual const DevicePeaks& peaks() const = 0;
  /// The compiler's name of it: "sm_90a".
  virtual const std::string& arch() const = 0;
  /// What makes this GPU the only one to a process: "NAME=value".
  virtual const std::vector<std::string>& environment() const = 0;

  struct Sizes {
    std::size_t inputs = 0, outputs = 0;  ///< bytes of one call's
  };
  /// `inputs` holds one call's inputs at a time, `outputs` every call's outputs. Errors:
  /// kUnavailable, the device is full or lost; a later call starts it anew.
  virtual Result<std::unique_ptr<DeviceWindows>> open(const Sizes& sizes, const UniqueFd& inputs,
                                                      const UniqueFd& outputs) = 0;
};

}  // namespace lathe
