#pragma once

#include <vector>

#include "backend/cuda/wire/protocol.h"
#include "sandbox/channel.h"

namespace lathe::cuda {

/// kSample copies this much of each piece, one after the other, to behind all outputs in host memory. It
/// overtakes running kernels, for which kCollect would wait.
inline constexpr std::uint64_t kLineBytes = 32;
inline constexpr std::uint64_t kSampledLines = 8;

/// Of the memory in which outputs and samples arrive.
inline std::uint64_t host_output_bytes(const Layout& layout) {
  return layout.outputs.stride * layout.trials + kSampledLines * kLineBytes;
}

/// Of a workload's memory, the inputs' and a bank of outputs'; so is device_bytes().
inline std::size_t handle_count(const Layout& layout) {
  return input_allocations(layout).bytes.size() + output_allocations(layout).bytes.size();
}

inline std::uint64_t device_bytes(const Layout& layout) {
  std::uint64_t bytes = 0;
  for (const Allocations& some : {input_allocations(layout), output_allocations(layout)})
    for (const std::uint64_t allocation : some.bytes) bytes += allocation;
  return bytes;
}

/// In frames of as many as one can carry.
Status send_handles(const Channel& channel, const std::vector<int>& fds);

}  // namespace lathe::cuda
