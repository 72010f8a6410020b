#pragma once

#include <memory>

#include "backend/cuda/broker/cuda_backend.h"
#include "backend/host_gpu.h"

namespace lathe {

/// A GPU for the HOST tier. Its process starts at once. Errors: as make_cuda_backend(), but for
/// NVRTC, which is not needed.
Result<std::unique_ptr<HostGpu>> make_host_gpu(const CudaBackendOptions& options);

}  // namespace lathe
