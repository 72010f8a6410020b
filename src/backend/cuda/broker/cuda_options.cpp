#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "backend/cuda/broker/cuda_backend.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/installation.h"
#include "backend/object_cache.h"

namespace lathe {
namespace {

/// Searches the folders of LD_LIBRARY_PATH, which helper processes do not inherit. Empty if none of
/// them has the library.
std::string find_in_library_path(const std::string& name) {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    std::error_code code;
    const std::string file = std::filesystem::absolute(folder, code) / name;
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return {};
}

}  // namespace

Result<CudaBackendOptions> with_defaults(CudaBackendOptions options) {
  LATHE_TRY(options.runner_program, find_program(options.runner_program, "lathe-cuda-runner"));
  LATHE_TRY(options.vendor_library, find_vendor_library(options.vendor_library, "liblathe_vendor_cuda.so"));
  if (options.cudnn_library.empty()) options.cudnn_library = find_in_library_path("libcudnn.so.9");
  if (options.include_folder.empty()) {
    LATHE_TRY(options.include_folder, device_header_folder());
  }
  if (options.cache_folder.empty()) {
    LATHE_TRY(options.cache_folder, default_cache_folder());
  }
  auto environment = cuda::environment_of(options.device);
  if (!environment.ok())
    return cuda::explain_missing(environment.error(), options.device,
                                 [&] { return cuda::list_visible(options); });
  options.device_environment = *std::move(environment);
  return options;
}

std::vector<std::string> launcher_arguments(const CudaBackendOptions& options) {
  return {"launch", options.vendor_library, options.cudnn_library};
}

}  // namespace lathe
