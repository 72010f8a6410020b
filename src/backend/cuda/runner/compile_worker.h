#pragma once

#include <string>

#include "backend/cuda/runner/nvrtc.h"
#include "sandbox/channel.h"

namespace lathe::cuda {

/// Serves compile jobs until the broker closes the channel. Each runs in a child of its own, which
/// may read `include_folder` and the toolkit's headers and write nothing but its reply. The reply
/// to a job without source has the compiler's version as its log.
void serve_compiles(const Channel& channel, const Nvrtc& nvrtc, const std::string& include_folder);

}  // namespace lathe::cuda
