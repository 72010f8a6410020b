#pragma once

#include <span>
#include <vector>

namespace lathe {

/// Which processors a candidate's threads have, and which are left.
struct TimingCores {
  std::vector<int> timed;   ///< one a core, as far as there are cores
  std::vector<int> others;  ///< that share no core with them, in ascending order
};

/// `core[i]` is any name of the core that `processors[i]` is a part of; `processors` ascend. From
/// the highest on, because systems keep their own work on the lowest.
TimingCores choose_timing_cores(std::span<const int> processors, std::span<const int> core, int threads);

}  // namespace lathe
