#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/events.h"
#include "policy/language.h"
#include "policy/meter.h"
#include "policy/openai/endpoint.h"
#include "policy/policy.h"
#include "prompt/prompter.h"

namespace lathe {

struct OpenAiOptions {
  openai::EndpointOptions endpoint;
  std::string model;  ///< empty: the only one that the endpoint has
  double temperature = 1;
  double top_p = 1;
  std::int64_t answer_tokens = 4096;
  PromptOptions prompt;
  std::shared_ptr<const ActionLanguage> language = kernel_language();
  std::string prompts_folder;  ///< empty: the installation's
  ModelBudget budget;
  double spent_tokens = 0;  ///< by earlier sittings
  double spent_usd = 0;
  int concurrency = 4;  ///< requests under way at once
  bool stream = true;
  bool logprobs = true;
};

/// A language model behind any OpenAI-compatible endpoint, named "openai:<model>". Proposals carry
/// their Generation: prompt, answer, what it cost, and log-probabilities and token ids where the
/// server gives them. A text without a candidate is proposed as it is: the gym says what is wrong
/// with it. Once the budget is spent it has no more proposals, and says so in an event. Errors: an
/// endpoint that is no URL, a model that must be named, templates that are missing.
Result<std::unique_ptr<Policy>> make_openai_policy(OpenAiOptions options, EventSink& events);

}  // namespace lathe
