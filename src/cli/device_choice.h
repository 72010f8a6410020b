#pragma once

#include <string>

#include "base/result.h"

namespace lathe::cli {

/// What --device says.
struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda, kEveryCuda, kHostCpu, kHostCuda, kService };
  Kind kind = Kind::kAuto;
  int index = 0;         ///< of a GPU, among those that CUDA_VISIBLE_DEVICES leaves
  std::string url = {};  ///< of a service

  bool runs_host_programs() const { return kind == Kind::kHostCpu || kind == Kind::kHostCuda; }
  bool wants_gpu() const { return kind == Kind::kCuda || kind == Kind::kEveryCuda; }
};

/// "auto", "cpu", "cuda" (the first visible GPU), "cuda:N", "cuda:all", "host:cpu", "host:cuda" and
/// "host:cuda:N" (Python candidates), or the URL of a lathe serve.
Result<DeviceChoice> parse_device(const std::string& text);

/// Why a verb that computes here does not take a service.
Error needs_own_device();

}  // namespace lathe::cli
