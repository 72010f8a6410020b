#include "backend/cuda/runner/region_memory.h"

namespace lathe::cuda {

template <typename Map>
Result<RegionMemory> RegionMemory::make(const Region& region, const Layout& layout, const Map& map) {
  RegionMemory made;
  made.slots_ = region.slots;
  made.allocations_ = allocations_of(region, layout);
  for (const std::uint64_t bytes : made.allocations_.bytes) {
    LATHE_TRY(DeviceMemory memory, map(bytes));
    made.mapped_.push_back(std::move(memory));
  }
  return made;
}

Result<RegionMemory> RegionMemory::create(const Driver& driver, const Region& region, const Layout& layout) {
  return make(region, layout, [&](std::uint64_t bytes) { return DeviceMemory::create(driver, bytes); });
}

Result<RegionMemory> RegionMemory::import(const Driver& driver, const Region& region, const Layout& layout,
                                          Access access, std::vector<UniqueFd>::iterator& next) {
  return make(region, layout,
              [&](std::uint64_t bytes) { return DeviceMemory::import(driver, *next++, bytes, access); });
}

}  // namespace lathe::cuda
