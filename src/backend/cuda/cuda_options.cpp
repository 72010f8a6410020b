#include "backend/compile_pool.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/installation.h"
#include "sandbox/process.h"

namespace lathe {

Result<CudaBackendOptions> with_defaults(CudaBackendOptions options) {
  LATHE_TRY(options.runner_program, find_program(options.runner_program, "lathe-cuda-runner"));
  LATHE_TRY(const std::string beside, sibling_program(""));
  LATHE_TRY(options.vendor_library,
            find_part(options.vendor_library,
                      {beside + "../lib/liblathe_vendor_cuda.so", beside + "liblathe_vendor_cuda.so"}));
  if (options.include_folder.empty()) {
    LATHE_TRY(options.include_folder, device_header_folder());
  }
  if (options.cache_folder.empty()) options.cache_folder = default_cache_folder();
  return options;
}

}  // namespace lathe
