#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/host_gpu.h"
#include "sandbox/jail.h"

namespace lathe {

struct HostBackendOptions {
  int threads = 1;
  std::string python = {};  ///< an interpreter that has torch; empty: $LATHE_PYTHON, else /usr/bin/python3
  std::string runner_program = {};   ///< empty: lathe-host-runner beside the running program
  std::string compile_program = {};  ///< empty: lathe-runner there
  std::string jail_library = {};     ///< empty: liblathe_host_jail.so beside it, or in ../lib
  std::string script_folder = {};    ///< empty: device/host of the installation
  std::string cache_folder = {};     ///< empty: default_cache_folder()
  double build_timeout_seconds = 60;
  JailKind jail = JailKind::kFull;
  CancelToken cancel = {};            ///< ends waiting for other processes that time on the device
  std::shared_ptr<HostGpu> gpu = {};  ///< where candidates' tensors lie; null: in the host's memory
  /// On a processor too a process serves several blocks and shapes, as where starting one is dear.
  bool few_processes = false;
};

/// The HOST tier on this machine's processor or on a GPU of it: candidates are Python modules that
/// use PyTorch, tasks have process references. Errors:
/// kUnavailable, with what is missing, where the interpreter has no torch or the machine no jail.
Result<std::unique_ptr<Backend>> make_host_backend(const HostBackendOptions& options);

/// A process task that lists no tensors, with those of its module (docs/host.md); other tasks as
/// they are. `backend` is of make_host_backend(). Errors: kInvalid, with what is wrong with the
/// module.
Result<TaskSpec> complete_task(Backend& backend, TaskSpec spec);

}  // namespace lathe
