#include "backend/cuda/runner/region_memory.h"

namespace lathe::cuda {

Result<RegionMemory> RegionMemory::create(const Driver& driver, const Region& region, const Layout& layout) {
  RegionMemory made;
  made.slots_ = region.slots;
  made.allocations_ = allocations_of(region, layout);
  for (const std::uint64_t bytes : made.allocations_.bytes) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::create(driver, bytes));
    made.mapped_.push_back(std::move(memory));
  }
  return made;
}

Result<RegionMemory> RegionMemory::import(const Driver& driver, const Region& region, const Layout& layout,
                                          Access access, std::vector<UniqueFd>::iterator& next) {
  RegionMemory made;
  made.slots_ = region.slots;
  made.allocations_ = allocations_of(region, layout);
  for (const std::uint64_t bytes : made.allocations_.bytes) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::import(driver, *next++, bytes, access));
    made.mapped_.push_back(std::move(memory));
  }
  return made;
}

}  // namespace lathe::cuda
