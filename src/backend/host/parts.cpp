#include "backend/host/parts.h"

#include "backend/installation.h"

namespace lathe::host {

Result<HostParts> find_parts(const HostBackendOptions& options) {
  LATHE_TRY(const std::string runner, find_program(options.runner_program, "lathe-host-runner"));
  LATHE_TRY(const std::string compiler, find_program(options.compile_program, "lathe-runner"));
  LATHE_TRY(const std::string library, find_vendor_library(options.jail_library, "liblathe_host_jail.so"));
  std::string scripts = options.script_folder, cache_folder = options.cache_folder;
  if (scripts.empty()) {
    LATHE_TRY(const std::string device, find_data_folder("device", "host/zygote.py"));
    scripts = device + "/host";
  }
  if (cache_folder.empty()) {
    LATHE_TRY(cache_folder, default_cache_folder());
  }
  LATHE_TRY(Python python, find_python(options.python));
  LATHE_CHECK_OK(ObjectCache::open(cache_folder));
  ZygoteOptions zygotes{runner,         python.program, scripts + "/zygote.py", library, cache_folder,
                        python.folders, options.jail};
  if (options.gpu) {
    zygotes.environment = options.gpu->environment();
    // A context with eight queues for kernels and as many for copies takes twice as long to make.
    zygotes.environment.insert(zygotes.environment.end(),
                               {"CUDA_DEVICE_MAX_CONNECTIONS=4", "CUDA_DEVICE_MAX_COPY_CONNECTIONS=1"});
  }
  return HostParts{std::move(python), compiler, std::move(scripts), std::move(cache_folder),
                   std::move(zygotes)};
}

}  // namespace lathe::host
