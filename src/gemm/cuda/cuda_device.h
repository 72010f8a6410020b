#pragma once

#include <memory>

#include "gemm/device.h"

namespace lathe::gemm {

/// The GPU of this number among those that CUDA_VISIBLE_DEVICES leaves, in this process: the
/// kernels are Lathe's own. `compile` builds the kernels of the checks. kUnavailable where there is
/// no GPU.
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, const Compile& compile);

}  // namespace lathe::gemm
