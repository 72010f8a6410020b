#pragma once

#include <utility>
#include <vector>

#include "backend/cuda/runner/device_memory.h"
#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// A region's device memory, mapped into this process's context: the keeper makes it, launchers
/// import it.
class RegionMemory {
 public:
  static Result<RegionMemory> create(const Driver& driver, const Region& region, Allocations allocations);
  /// Takes as many of the handles from `next` on as it needs.
  static Result<RegionMemory> import(const Driver& driver, const Region& region, Allocations allocations,
                                     Access access, std::vector<UniqueFd>::iterator& next);

  /// Where the tensor begins.
  DevicePointer tensor(std::uint32_t trial, std::size_t slot) const {
    return memory(trial, slot) + slots_[slot].offset;
  }
  /// Where its slot begins.
  DevicePointer memory(std::uint32_t trial, std::size_t slot) const {
    const Allocations::Place& place = allocations_.places[trial * slots_.size() + slot];
    return mapped_[place.allocation].address() + place.offset;
  }
  const std::vector<DeviceMemory>& mapped() const { return mapped_; }

 private:
  template <typename Map>  ///< from an allocation's bytes to its memory
  static Result<RegionMemory> make(const Region& region, Allocations allocations, const Map& map);

  std::vector<Slot> slots_;
  Allocations allocations_;
  std::vector<DeviceMemory> mapped_;
};

}  // namespace lathe::cuda
