#pragma once

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/protocol.h"
#include "base/fd.h"

namespace lathe::cuda {

/// Multiplies the matrices in `memory` with kKeeperKernels and stores the product in place of the
/// last one. kUnavailable if the device lacks memory.
Status multiply_matrices(const Driver& driver, Module kernels, const Product& product,
                         const UniqueFd& memory);

}  // namespace lathe::cuda
