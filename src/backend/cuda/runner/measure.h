#pragma once

#include <vector>

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// Measures the device's limits with kKeeperKernels. Returns DRAM bytes, L2 bytes and fp32
/// operations per second, and the tensor cores' peak, which is computed rather than measured.
Result<std::vector<double>> measure_device(const Driver& driver, Module kernels, const DeviceFacts& facts);

}  // namespace lathe::cuda
