#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/broker/cuda_backend.h"

namespace lathe {

/// Builds kernels for a GPU that need not be present, in the same jail as evaluations do.
class OfflineBuilder {
 public:
  /// `arch` is NVRTC's name ("sm_90a"), or empty for this machine's GPU. A named architecture
  /// implies the facts of a common chip, which `facts` overrides. Errors: neither a GPU nor a name;
  /// an unknown name.
  static Result<std::unique_ptr<OfflineBuilder>> create(const CudaBackendOptions& options,
                                                        const std::string& arch, const Dims& facts);
  virtual ~OfflineBuilder() = default;
  virtual const std::string& arch() const = 0;
  virtual const Dims& facts() const = 0;  ///< for plan expressions: sm_count, ...
  virtual Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                                    const CancelToken& cancel) = 0;
};

}  // namespace lathe
