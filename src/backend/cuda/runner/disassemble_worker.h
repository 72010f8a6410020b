#pragma once

#include <string>

#include "sandbox/channel.h"

namespace lathe::cuda {

/// Serves jobs whose source is a cubin: `program` (nvdisasm) prints it in a child that can read nothing else
/// of the machine's but libraries. Returns when the broker is gone.
void serve_disassembly(const Channel& channel, const std::string& program);

}  // namespace lathe::cuda
