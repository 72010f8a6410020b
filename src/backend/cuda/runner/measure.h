#pragma once

#include <vector>

#include "backend/cuda/driver_api.h"
#include "backend/cuda/protocol.h"
#include "base/fd.h"

namespace lathe::cuda {

/// Runs the kernels of peaks.h from the cubin in fds[0]: bytes a second from DRAM, the same from L2, and
/// fp32 operations a second.
Result<std::vector<double>> measure_device(const Driver& driver, const std::vector<UniqueFd>& fds,
                                           const DeviceFacts& facts);

}  // namespace lathe::cuda
