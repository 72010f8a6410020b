#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/compile_pool.h"
#include "backend/object_cache.h"

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

  /// `constants` are compiled in as -DNAME=value. An Error is the machine's fault, or kCancelled.
  Result<BuildResult> build(const std::string& source, const Dims& constants, const CancelToken& cancel);
  const std::string& version() const { return version_; }

 private:
  Toolchain(ToolchainOptions options, ObjectCache cache, const std::string& header_folder)
      : options_(std::move(options)),
        header_folder_(header_folder),
        cache_(std::move(cache)),
        workers_(options_.runner_program, {"compile", header_folder}) {}
  Result<BuildResult> compile(const protocol::CompileJob& job, const CancelToken& cancel);

  ToolchainOptions options_;
  std::string header_folder_;  ///< a copy that the jail can read
  std::string version_;        ///< compiler, target and headers
  ObjectCache cache_;
  CompilePool workers_;
};

}  // namespace lathe::cuda
