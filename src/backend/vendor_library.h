#pragma once

#include <string>

#include "base/result.h"
#include "candidate/vendor.h"

namespace lathe {

/// liblathe_vendor.so or liblathe_vendor_cuda.so, loaded at run time so that only runners that use
/// it pay for it.
class VendorLibrary {
 public:
  static Result<VendorLibrary> open(const std::string& path);

  /// Errors: kUnavailable, "no_library"; kInvalid, "library_refuses": it cannot compute this.
  Result<lathe_vendor_call*> prepare(const std::string& json, int threads) const;
  /// Sets the CUDA stream of later calls. Returns 0 or the library's error code.
  int set_stream(void* stream) const { return set_stream_ ? set_stream_(stream) : 0; }
  /// Loads cuDNN, from `first_place` if that file exists, and returns its path. kUnavailable if
  /// there is none.
  Result<std::string> find_cudnn(const std::string& first_place) const;
  int execute(lathe_vendor_call* call, void* const* buffers) const { return execute_(call, buffers); }

 private:
  decltype(&lathe_vendor_prepare) prepare_ = nullptr;
  decltype(&lathe_vendor_execute) execute_ = nullptr;
  decltype(&lathe_vendor_set_stream) set_stream_ = nullptr;
  decltype(&lathe_vendor_find_cudnn) find_cudnn_ = nullptr;
};

}  // namespace lathe
