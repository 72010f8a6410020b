#pragma once

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// kLook copies this much of each piece, one after the other, to behind all outputs in host memory. It goes
/// past running kernels, which kCollect would wait for.
inline constexpr std::uint64_t kLineBytes = 32;
inline constexpr std::uint64_t kLookLines = 8;

/// Of the memory in which outputs and looks arrive.
inline std::uint64_t host_output_bytes(const Layout& layout) {
  return layout.outputs.stride * layout.trials + kLookLines * kLineBytes;
}

}  // namespace lathe::cuda
