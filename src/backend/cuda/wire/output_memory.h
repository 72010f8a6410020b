#pragma once

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// kSample copies this much of each piece, one after the other, to behind all outputs in host memory. It
/// overtakes running kernels, for which kCollect would wait.
inline constexpr std::uint64_t kLineBytes = 32;
inline constexpr std::uint64_t kSampledLines = 8;

/// Of the memory in which outputs and samples arrive.
inline std::uint64_t host_output_bytes(const Layout& layout) {
  return layout.outputs.stride * layout.trials + kSampledLines * kLineBytes;
}

}  // namespace lathe::cuda
