#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gemm/device.h"

namespace lathe::gemm {

/// Reads a GPU's sensors.
using Sensors = std::function<Draw()>;
/// For the GPU at a bus address, "0000:17:00.0".
using OpenSensors = std::function<Result<Sensors>(const std::string& bus)>;

/// The GPU of this number among those that CUDA_VISIBLE_DEVICES leaves, in this process: the
/// kernels are Lathe's own. `compile` builds the kernels of the checks. kUnavailable where there is
/// no GPU.
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, const Compile& compile,
                                                 const OpenSensors& open_sensors = {});

}  // namespace lathe::gemm
