#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gemm/runtime/launch.h"

namespace lathe::gemm {

/// One way in which NVIDIA's libraries compute a product: fp16 in and out, sums and scales of a
/// track.
class VendorCall {
 public:
  virtual ~VendorCall() = default;
  virtual Layout layout() const = 0;
  virtual const std::string& name() const = 0;
  /// Enqueues it; the library's code, 0 for success.
  virtual int enqueue(const Call& call, Stream stream) = 0;
};

/// cuBLAS and cuBLASLt, bound at run time, with a workspace of 64 MiB.
class VendorLibraries {
 public:
  /// In the current context. kUnavailable where they are not installed.
  static Result<std::unique_ptr<VendorLibraries>> open(DevicePointer workspace);
  virtual ~VendorLibraries() = default;
  static constexpr std::size_t kWorkspaceBytes = 64 << 20;

  /// For packed products of this size: cuBLAS in the track's layout (for TN also with B as rows of
  /// N: NN), then in the same layouts all candidates of cuBLASLt's heuristic, its first choice
  /// first. Sums in fp16 are those of COMPUTE_16F, which serve alpha = 1 and beta = 0 only.
  virtual Result<std::vector<std::unique_ptr<VendorCall>>> calls(int m, int n, int k, const Track& track) = 0;
};

}  // namespace lathe::gemm
