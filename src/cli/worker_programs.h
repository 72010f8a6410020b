#pragma once

#include <string>
#include <vector>

#include "cli/session.h"
#include "serve/worker_pool.h"

namespace lathe::cli {

/// The devices of this machine that --device names, to have a worker each, all of one kind.
Result<std::vector<std::string>> worker_devices(const std::string& device);

/// The kind of evaluations that are for a device: "cpu", "cuda", "host:cpu", "host:cuda".
std::string kind_of_device(const std::string& device);

struct WorkerChoice {
  std::string program;  ///< empty: lathe-serve
  int for_each = 1;     ///< device
};

/// The processes that evaluate on these devices for the front end that starts them. They inherit
/// neither its token nor the names of its queue and store.
Result<std::vector<serve::WorkerProgram>> worker_programs(const CommonOptions& options,
                                                          const std::vector<std::string>& devices,
                                                          const WorkerChoice& choice);

}  // namespace lathe::cli
