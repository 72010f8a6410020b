#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace lathe {

struct CudaBackendOptions {
  std::string runner_program;  ///< empty: lathe-cuda-runner beside the running program
  std::string vendor_library;  ///< empty: liblathe_vendor_cuda.so beside it, or in ../lib
  std::string
      cudnn_library;  ///< empty: libcudnn.so.9 in a folder of LD_LIBRARY_PATH, or where the loader looks
  std::string include_folder;  ///< empty: device_header_folder()
  std::string cache_folder;    ///< empty: default_cache_folder()
  double build_timeout_seconds = 30;
  int device = 0;                                    ///< of those that CUDA_VISIBLE_DEVICES leaves
  std::vector<std::string> device_environment = {};  ///< by with_defaults(): makes that GPU the only one
};

/// The places of all parts, and how helpers see the GPU. Errors: kNotFound, an installation that
/// lacks a part, or no GPU of that number.
Result<CudaBackendOptions> with_defaults(CudaBackendOptions options);

/// What a process of runner_program that runs candidates is started with.
std::vector<std::string> launcher_arguments(const CudaBackendOptions& options);

/// An NVIDIA GPU of this machine. Errors: kNotFound, none of that number; no driver, no GPU, no
/// NVRTC, a sandbox feature that is missing.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options);

}  // namespace lathe
