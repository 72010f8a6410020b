#include "backend/cuda/runner/region_memory.h"

namespace lathe::cuda {

template <typename Map>
Result<RegionMemory> RegionMemory::make(const Region& region, Allocations allocations, const Map& map) {
  RegionMemory made;
  made.slots_ = region.slots;
  made.allocations_ = std::move(allocations);
  for (const std::uint64_t bytes : made.allocations_.bytes) {
    LATHE_TRY(DeviceMemory memory, map(bytes));
    made.mapped_.push_back(std::move(memory));
  }
  return made;
}

Result<RegionMemory> RegionMemory::create(const Driver& driver, const Region& region,
                                          Allocations allocations) {
  return make(region, std::move(allocations),
              [&](std::uint64_t bytes) { return DeviceMemory::create(driver, bytes); });
}

Result<RegionMemory> RegionMemory::import(const Driver& driver, const Region& region, Allocations allocations,
                                          Access access, std::vector<UniqueFd>::iterator& next) {
  return make(region, std::move(allocations),
              [&](std::uint64_t bytes) { return DeviceMemory::import(driver, *next++, bytes, access); });
}

}  // namespace lathe::cuda
