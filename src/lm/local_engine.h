#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "lm/runner.h"
#include "model/engine.h"

namespace lathe::lm {

struct LocalEngineOptions {
  EngineInfo info;
  RunnerOptions runner;
  std::vector<TokenId> end_tokens;  ///< that end an answer
  /// What a token writes. Without it requests with stop texts are refused.
  std::function<std::string_view(TokenId)> token_bytes = {};
  /// Waits for the engine's turn on a device where others time kernels. What it returns is held
  /// while steps compute, and let go of after `turn_seconds` of them. Empty: nobody else is there.
  std::function<std::shared_ptr<void>()> take_turn = {};
  double turn_seconds = 0.02;
};

/// The engine in this process: one thread schedules requests onto the rows of a runner's batch. A
/// prompt is computed once, and its pages are shared by the request's samples.
std::unique_ptr<Engine> make_local_engine(std::unique_ptr<Runner> runner, LocalEngineOptions options);

}  // namespace lathe::lm
