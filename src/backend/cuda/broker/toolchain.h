#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/compile_shop.h"

namespace lathe::cuda {

struct ToolchainOptions {
  std::string runner_program;  ///< lathe-cuda-runner
  std::string include_folder;  ///< holds lathe/cuda.cuh
  std::string cache_folder;
  std::string arch;  ///< "sm_90a"
  double timeout_seconds = 30;
};

/// NVRTC in compile jails: source to cubin, cached by content. Thread-safe.
class Toolchain {
 public:
  static Result<std::unique_ptr<Toolchain>> create(const ToolchainOptions& options);

  /// An Error is the machine's fault, or kCancelled.
  Result<BuildResult> build(const std::string& source, const CancelToken& cancel);
  const std::string& version() const { return version_; }

 private:
  explicit Toolchain(ToolchainOptions options) : options_(std::move(options)) {}
  Result<BuildResult> compile(const protocol::CompileJob& job, const CancelToken& cancel);

  ToolchainOptions options_;
  std::string version_;                ///< compiler, target and headers
  std::unique_ptr<CompileShop> shop_;  ///< with a copy of the headers that the jail can read
};

}  // namespace lathe::cuda
