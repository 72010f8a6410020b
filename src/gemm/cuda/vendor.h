#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gemm/runtime/launch.h"

namespace lathe::gemm {

/// One way in which NVIDIA's libraries compute a product: fp16 in and out, fp32 sums and scales.
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

  /// For packed products of `call`'s size: cuBLAS with B as rows of N (NN) and as rows of K (TN),
  /// then for each of the two all candidates of cuBLASLt's heuristic, its first choice first.
  virtual Result<std::vector<std::unique_ptr<VendorCall>>> calls(int m, int n, int k) = 0;
};

}  // namespace lathe::gemm
