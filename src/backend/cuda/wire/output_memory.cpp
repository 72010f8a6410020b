#include "backend/cuda/wire/output_memory.h"

#include <algorithm>

namespace lathe::cuda {

Status send_handles(const Channel& channel, const std::vector<int>& fds) {
  for (std::size_t first = 0; first < fds.size(); first += kMaxFrameFds) {
    const auto begin = fds.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxFrameFds, fds.size() - first));
    LATHE_CHECK_OK(channel.send("memory", {begin, begin + count}));
  }
  return Ok{};
}

}  // namespace lathe::cuda
