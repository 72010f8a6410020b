#include "backend/backend.h"

namespace lathe {

double DevicePeaks::memory_floor_seconds(double bytes) const {
  for (const Level& level : levels)
    if (bytes <= level.capacity_bytes) return bytes / level.bytes_per_second;
  return 0;
}

}  // namespace lathe
