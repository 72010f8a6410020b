#include "backend/timing_cores.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace lathe {

TimingCores choose_timing_cores(std::span<const int> processors, std::span<const int> core, int threads) {
  TimingCores chosen;
  std::set<int> used;
  const auto is_timed = [&](int processor) {
    return std::ranges::find(chosen.timed, processor) != chosen.timed.end();
  };
  for (const bool new_cores_only : {true, false})
    for (std::size_t i = processors.size(); i-- > 0 && std::ssize(chosen.timed) < threads;) {
      if (is_timed(processors[i]) || (new_cores_only && used.contains(core[i]))) continue;
      chosen.timed.push_back(processors[i]);
      used.insert(core[i]);
    }
  for (std::size_t i = 0; i < processors.size(); ++i)
    if (!used.contains(core[i])) chosen.others.push_back(processors[i]);
  return chosen;
}

}  // namespace lathe
