#pragma once

#include <numeric>
#include <vector>

#include "backend/cuda/wire/protocol.h"
#include "sandbox/channel.h"

namespace lathe::cuda {

/// kSample copies this much of each piece, one after the other, to behind all outputs in host
/// memory. It overtakes running kernels, for which kCollect would wait.
inline constexpr std::uint64_t kLineBytes = 32;
inline constexpr std::uint64_t kSampledLines = 8;

/// Of the memory in which outputs and samples arrive.
inline std::uint64_t host_output_bytes(const Layout& layout) {
  return layout.outputs.stride * layout.trials + kSampledLines * kLineBytes;
}

/// Of a workload's inputs and one bank of outputs.
inline std::size_t handle_count(const Layout& layout) {
  return input_allocations(layout).bytes.size() + output_allocations(layout).bytes.size();
}

inline std::uint64_t device_bytes(const Layout& layout, std::size_t banks = 1) {
  const auto sum = [](const Allocations& some) {
    return std::accumulate(some.bytes.begin(), some.bytes.end(), std::uint64_t{0});
  };
  return sum(input_allocations(layout)) + banks * sum(output_allocations(layout));
}

/// In frames of as many as one can carry.
Status send_handles(const Channel& channel, const std::vector<int>& fds);

}  // namespace lathe::cuda
