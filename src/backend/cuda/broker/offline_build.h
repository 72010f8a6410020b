#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/broker/cuda_backend.h"

namespace lathe {

/// Builds kernels for a GPU that need not be there. The compiler runs in the same jail as an evaluation's.
class OfflineBuilder {
 public:
  /// `arch` as NVRTC names it ("sm_90a"); empty for this machine's GPU. A named one comes with the facts of a
  /// common chip of its kind; `facts` replaces any of them. Errors: no GPU and no name, an unknown name.
  static Result<std::unique_ptr<OfflineBuilder>> create(const CudaBackendOptions& options,
                                                        const std::string& arch, const Dims& facts);
  virtual ~OfflineBuilder() = default;
  virtual const std::string& arch() const = 0;
  virtual const Dims& facts() const = 0;  ///< what plan expressions may use: sm_count, smem_optin, l2_bytes
  virtual Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                                    const CancelToken& cancel) = 0;
};

}  // namespace lathe
