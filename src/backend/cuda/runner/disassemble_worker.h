#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe::cuda {

/// Serves jobs whose source is a cubin until the broker closes the channel. `program` (nvdisasm)
/// runs in a child that can read nothing but the cubin and system libraries.
void serve_disassembly(const Channel& channel, const std::string& program);

}  // namespace lathe::cuda
