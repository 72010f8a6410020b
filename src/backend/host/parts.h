#pragma once

#include <string>
#include <vector>

#include "backend/host/host_backend.h"
#include "backend/host/python.h"
#include "backend/host/zygote.h"

namespace lathe::host {

/// What the HOST tier is made of on this machine.
struct HostParts {
  Python python;
  std::string compile_program, script_folder, cache_folder;
  ZygoteOptions zygotes;
};
/// Errors: kUnavailable, with what is missing.
Result<HostParts> find_parts(const HostBackendOptions& options);

}  // namespace lathe::host
