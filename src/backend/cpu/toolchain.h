#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/compile_shop.h"
#include "sandbox/jail.h"

namespace lathe {

struct ToolchainOptions {
  std::string runner_program;  ///< lathe-runner
  std::string include_folder;  ///< holds lathe/cpu.h
  std::string cache_folder;    ///< where the precompiled header and artefacts are kept
  double timeout_seconds = 30;
  JailKind jail = JailKind::kFull;
  std::vector<int> processors = {};  ///< of the compilers; empty: all
};

/// g++ in persistent compile jails, one per concurrent build. Objects are cached by content, so
/// that equal candidates are compiled once across all processes. Thread-safe.
class Toolchain {
 public:
  /// Precompiles lathe/cpu.h on the first use of a cache folder (about a second).
  static Result<std::unique_ptr<Toolchain>> create(const ToolchainOptions& options);

  /// An Error is the machine's fault, or kCancelled.
  Result<BuildResult> build(const std::string& source, const CancelToken& cancel);
  const std::string& version() const { return version_; }

 private:
  explicit Toolchain(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}
  Result<BuildResult> compile(const std::string& source, const CancelToken& cancel);

  double timeout_seconds_;
  std::string version_;                ///< compiler, its target, flags
  std::unique_ptr<CompileShop> shop_;  ///< with copies of the headers, and the precompiled one
};

}  // namespace lathe
