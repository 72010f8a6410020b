#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/engine.h"

namespace lathe {

struct EngineClientOptions {
  std::string program;                 ///< lathe-torch
  std::vector<std::string> arguments;  ///< of its verb `serve`: "--model", "...", "--device", "cpu"
  double start_seconds = 300;          ///< to find LibTorch and load the model
};

/// An engine in a process of its own, lathe-torch, which ends with this object. When it ends by
/// itself, by a signal for instance, all requests fail with how it ended and the last of what it
/// printed.
Result<std::unique_ptr<Engine>> start_engine(const EngineClientOptions& options);

/// lathe-torch: what LATHE_ENGINE names, else beside the running program, else where the build puts
/// it. Errors: kNotFound with how to get it.
Result<std::string> find_engine_program();

}  // namespace lathe
