#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/device_lane.h"
#include "base/events.h"
#include "model/engine.h"
#include "policy/language.h"
#include "policy/meter.h"

namespace lathe {

struct LocalOptions {
  std::string model;  ///< a GGUF file, or a folder of safetensors
  std::function<Result<std::unique_ptr<Engine>>()>
      start_engine;  ///< of that model; called again after it ended
  double temperature = 1;
  double top_p = 1;
  std::int64_t answer_tokens = 4096;
  PromptOptions prompt;        ///< its counter becomes the model's own tokenizer
  std::string prompts_folder;  ///< empty: the installation's
  std::shared_ptr<const ActionLanguage> language = kernel_language();
  ModelBudget budget;
  double spent_tokens = 0;        ///< by earlier sittings
  double patience_seconds = 900;  ///< for the next answer, before the engine counts as hanging
  /// Of the device that kernels are timed on, where the engine computes on it too: nothing is timed
  /// while it writes.
  DeviceLane* lane = nullptr;
};

/// A language model in an engine of Lathe's own, named "local:<file>". Requests are served side by
/// side, the samples of one share its prompt. Proposals carry their whole Generation: the ids of
/// all tokens and the log-probability of each one under the distribution that it was drawn from. An
/// engine that ends or hangs is started again, and what it had under way is asked again, with the
/// same seeds; after the third time in a row the requests fail. Errors: the engine does not start,
/// the model has no tokenizer, templates are missing.
Result<std::unique_ptr<Policy>> make_local_policy(LocalOptions options, EventSink& events);

}  // namespace lathe
