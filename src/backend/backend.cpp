#include "backend/backend.h"

#include <algorithm>

namespace lathe {

double DevicePeaks::memory_floor_seconds(double bytes) const {
  double seconds = 0, held = 0;
  for (const Level& level : levels) {
    const double here = std::min(bytes, level.capacity_bytes) - held;
    if (here <= 0) break;
    seconds += here / level.bytes_per_second;
    held += here;
  }
  return seconds;
}

DevicePeaks DevicePeaks::best_of(const DevicePeaks& other) const {
  if (levels.size() != other.levels.size()) return other;
  DevicePeaks best = *this;
  best.flops_per_second = std::max(flops_per_second, other.flops_per_second);
  for (std::size_t i = 0; i < levels.size(); ++i)
    best.levels[i].bytes_per_second = std::max(levels[i].bytes_per_second, other.levels[i].bytes_per_second);
  return best;
}

}  // namespace lathe
