#pragma once

#include <array>
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
  /// machine's fault, or kCancelled. The first C++ precompiles torch's headers, which takes a
  /// quarter of a minute, and a full minute where it needs all of them.
  Result<CompiledExtension> build(const std::string& request, const CancelToken& cancel);

 private:
  struct Language;
  struct Making;
  /// What a unit gets for <torch/extension.h>, precompiled: tensors, what allocates them and what
  /// gives their functions to Python; or all of it, but for kernels that torch's types suffice. The
  /// first serves most, and all of it takes nvcc four times as long and g++ three times.
  enum class Headers { kNone, kTensor, kTypes, kAll };
  Result<CompileShop*> shop(Headers headers);
  /// With as few headers as it compiles with.
  Result<CompiledExtension> compile_with_few(const Language& language, const nlohmann::json& document,
                                             const CancelToken& cancel);
  Result<CompiledExtension> compile(const Language& language, const nlohmann::json& document, Headers headers,
                                    const CancelToken& cancel);
  Result<protocol::CudaUnit> kernels_of(const Language& language, const nlohmann::json& document,
                                        const std::string& own_headers) const;

  const Python python_;
  const ExtensionBuilderOptions options_;
  /// `job` has the digest `key`, and may be asked for by several threads.
  Result<CompiledExtension> compile_once(CompileShop& shop, const Digest& key, protocol::CompileJob job,
                                         const CancelToken& cancel);
  std::mutex mutex_;
  std::map<Digest, std::shared_ptr<Making>> making_;  ///< what is being compiled
  struct Place {
    std::mutex mutex;
    std::unique_ptr<CompileShop> shop;
  };
  std::array<Place, 3> shops_;  ///< without headers, with few of torch's, with all
};

}  // namespace lathe::host
