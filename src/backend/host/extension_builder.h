#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/compile_shop.h"
#include "backend/host/python.h"
#include "sandbox/jail.h"

namespace lathe::host {

struct ExtensionBuilderOptions {
  std::string compile_program;  ///< lathe-runner
  std::string cache_folder;
  double timeout_seconds = 60;
  std::string arch = {};  ///< "sm_90a": CUDA sources are compiled for it; empty: none are
  JailKind jail = JailKind::kFull;
  std::vector<int> processors = {};  ///< of the compilers; empty: all
};

/// What compiling one load_inline request gave.
struct CompiledExtension {
  bool ok = false;
  std::string reason, log;
  std::string object;  ///< untrusted
  double seconds = 0;
};

/// Compiles what Python candidates need, in the compile jail: C++ for
/// torch.utils.cpp_extension.load_inline, and the C of Triton's launchers. Objects are kept by the
/// digest of all that they are made of, where no candidate can write. Thread-safe.
class ExtensionBuilder {
 public:
  ExtensionBuilder(Python python, ExtensionBuilderOptions options)
      : python_(std::move(python)), options_(std::move(options)) {}

  /// `request` is the candidate's: JSON of a kind, a name, a source and flags. An Error is the
  /// machine's fault, or kCancelled. The first C++ precompiles torch's header, which takes a
  /// minute.
  Result<CompiledExtension> build(const std::string& request, const CancelToken& cancel);

 private:
  struct Language;
  struct Making;
  /// With torch's header precompiled, or without headers.
  Result<CompileShop*> shop(bool precompiled);
  /// `few_headers`: kernels have torch's types alone for <torch/extension.h>, which takes nvcc a
  /// third of the time and serves most.
  Result<CompiledExtension> compile(const Language& language, const nlohmann::json& document,
                                    bool few_headers, const CancelToken& cancel);
  Result<protocol::CudaUnit> kernels_of(const Language& language, const nlohmann::json& document,
                                        const std::string& few_headers) const;

  const Python python_;
  const ExtensionBuilderOptions options_;
  /// `job` has the digest `key`, and may be asked for by several threads.
  Result<CompiledExtension> compile_once(CompileShop& shop, const Digest& key, protocol::CompileJob job,
                                         const CancelToken& cancel);
  std::mutex mutex_;
  std::map<Digest, std::shared_ptr<Making>> making_;  ///< what is being compiled
  std::unique_ptr<CompileShop> shop_, plain_shop_;
};

}  // namespace lathe::host
