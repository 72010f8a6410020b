#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe::cuda {

/// Loads NVRTC, enters namespaces in which no file exists but those of `include_folder`, and serves
/// compile jobs until the broker closes the channel; returns the process's exit code. Each job runs
/// in a child of its own, which may read the headers and write nothing but its reply. The reply to
/// a job without source has the compiler's version as its log.
int serve_compiles(const Channel& channel, const std::string& include_folder);

}  // namespace lathe::cuda
