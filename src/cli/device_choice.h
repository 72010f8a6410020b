#pragma once

#include <string>

#include "base/result.h"

namespace lathe::cli {

/// What --device says.
struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda, kEveryCuda, kHostCpu };
  Kind kind = Kind::kAuto;
  int index = 0;  ///< of a GPU, among those that CUDA_VISIBLE_DEVICES leaves

  bool wants_gpu() const { return kind == Kind::kCuda || kind == Kind::kEveryCuda; }
};

/// "auto", "cpu", "cuda" (the first visible GPU), "cuda:N", "cuda:all", "host:cpu" (Python
/// candidates).
Result<DeviceChoice> parse_device(const std::string& text);

}  // namespace lathe::cli
