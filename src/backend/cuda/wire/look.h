#pragma once

#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// kLook copies kLineBytes from each sampled place, one after the other, to the end of the host
/// memory that receives outputs. Unlike kCollect it does not wait for running kernels.
inline constexpr std::uint64_t kLineBytes = 32;
inline constexpr std::uint64_t kLookLines = 8;

/// The size of the host memory that receives outputs and sampled lines.
inline std::uint64_t host_output_bytes(const Layout& layout) {
  return layout.outputs.stride * layout.trials + kLookLines * kLineBytes;
}

}  // namespace lathe::cuda
