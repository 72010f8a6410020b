#pragma once

#include <string>
#include <vector>

#include "backend/cuda/broker/cuda_backend.h"

namespace lathe {

/// Something that GPU kernels require or benefit from.
struct GpuPart {
  std::string name;
  bool available = false;
  bool needed = false;  ///< without it nothing runs on a GPU
  std::string detail;   ///< what was found; or what is missing, the consequence and the remedy
};

/// Checks every part by using it, which takes a second or two. The first is the driver; without it
/// the others are skipped.
std::vector<GpuPart> examine_gpu(const CudaBackendOptions& options);

}  // namespace lathe
