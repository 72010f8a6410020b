#pragma once

#include <vector>

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// Runs kKeeperKernels that reach the device's limits: bytes a second from DRAM, the same from L2, and fp32
/// operations a second. Then what tensor cores can do at most, which is not measured.
Result<std::vector<double>> measure_device(const Driver& driver, Module kernels, const DeviceFacts& facts);

}  // namespace lathe::cuda
