#pragma once

#include <string>
#include <vector>

#include "backend/cuda/broker/cuda_backend.h"

namespace lathe {

/// One part of what kernels for GPUs need, or gain from.
struct GpuPart {
  std::string name;
  bool available = false;
  bool needed = false;  ///< without it nothing runs on a GPU
  std::string detail;   ///< what there is; or what is missing, what that costs, and what would help
};

/// Looks at every part by using it (a second or two). The first is the driver: without it the others are not
/// looked for.
std::vector<GpuPart> examine_gpu(const CudaBackendOptions& options);

}  // namespace lathe
