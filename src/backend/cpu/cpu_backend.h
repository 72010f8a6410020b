#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "sandbox/jail.h"

namespace lathe {

struct CpuBackendOptions {
  int threads = 1;             ///< for candidates and baselines alike
  std::string runner_program;  ///< empty: lathe-runner beside the running program
  std::string vendor_library;  ///< empty: liblathe_vendor.so beside it, or in ../lib
  std::string include_folder;  ///< empty: device_header_folder()
  std::string cache_folder;    ///< empty: default_cache_folder()
  double build_timeout_seconds = 30;
  std::int64_t memory_bytes = 0;  ///< that scratch may take a quarter of; 0: what the system has
  JailKind jail = JailKind::kFull;
  CancelToken cancel = {};  ///< ends waiting for other processes that time on the processor
};

/// The backend for this machine's processor. Errors: no compiler, no runner, or a missing sandbox
/// feature.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace lathe
