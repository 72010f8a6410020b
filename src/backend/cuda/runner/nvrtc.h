#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// The result of a compilation. `log` includes warnings. Its lines start with their location:
/// "candidate.cu(line): ...".
struct Compiled {
  bool ok = false;
  std::string cubin;
  std::string log;
  double seconds = 0;
};

/// NVIDIA's run-time compiler, bound at run time. A process that has compiled must not fork
/// children that use the driver, because NVRTC 13 calls into it. Not thread-safe: one compilation
/// at a time per process.
class Nvrtc {
 public:
  /// Looks for libnvrtc in the loader's path and in CUDA's usual folder. kUnavailable if there is
  /// none.
  static Result<Nvrtc> open();

  /// `flags` are NVRTC's own: -arch=sm_90a, -I, -D.
  Compiled compile(const std::string& source, const std::vector<std::string>& flags) const;
  const std::string& version() const { return version_; }  ///< "13.0"

 private:
  struct Functions;
  Nvrtc() = default;

  const Functions* functions_ = nullptr;
  std::string version_;
};

}  // namespace lathe::cuda
