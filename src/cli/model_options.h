#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/device_lane.h"
#include "base/events.h"
#include "candidate/dialect.h"
#include "policy/language.h"
#include "policy/policy.h"
#include "search/strategy.h"

namespace lathe {
class JsonReader;
}

namespace lathe::cli {

/// How a language model takes part in a run, and how the search talks to it. Zero and empty: not
/// given.
struct ModelOptions {
  std::string endpoint;  ///< as far as "/v1"
  std::string model;     ///< a server's name for it, or a local file
  std::string adapter;   ///< local: a folder
  std::string language = "kernel";
  std::string engine_device = "auto";  ///< local: where the model computes
  std::string key_variable;            ///< of the environment; empty: LATHE_API_KEY, else OPENAI_API_KEY
  double temperature = 1, top_p = 1;
  std::int64_t answer_tokens = 4096, prompt_tokens = 8000;
  int concurrency = 4;
  double request_seconds = 900;
  bool whole_replies = false, no_logprobs = false;
  bool no_grammar = false;  ///< local: of kernels; schedules always have one
  std::string prompts;      ///< a folder of templates; empty: the installation's
  std::int64_t token_budget = 0;
  double money_budget = 0;                    ///< USD
  double prompt_price = 0, answer_price = 0;  ///< USD a million tokens
  int turns = 3, branches = 4;
  std::string history = "full";
  int islands = 1, exemplars = 2;
  double tau = 0.25;
};

/// What --language names.
std::shared_ptr<const ActionLanguage> language_of(const ModelOptions& options);

/// Options that a resumed run keeps. Where a model is reached and what it may cost can change.
std::vector<CLI::Option*> add_model_options(CLI::App& verb, ModelOptions& options);

nlohmann::json to_json(const ModelOptions& options);
/// What a stored run was started with; what is given now replaces the endpoint, the key's variable
/// and the budgets.
void read_model_options(JsonReader& reader, ModelOptions& options);

/// Takes the API key out of the environment, so that no process that Lathe starts finds it there;
/// empty where there is none. Call it before there are threads. Errors: kInvalid, the variable that
/// --api-key-env names is not set.
Result<std::string> take_api_key(const ModelOptions& options);

struct Spent {
  double tokens = 0;
  double usd = 0;
};

/// What a policy needs of the run that it serves.
struct PolicyPlace {
  const std::string& key;
  Spent spent;
  Dialect dialect;   ///< of the kernels
  DeviceLane* lane;  ///< of the device that they are timed on; null: not of this machine
  EventSink& events;
};
/// The policy of that name: "catalog", "choices" (a network that chooses schedules), "openai",
/// "local", or "mix" of the catalogue and a model: the one behind the endpoint where that is given,
/// else the local one.
Result<std::unique_ptr<Policy>> make_named_policy(const std::string& name, const ModelOptions& options,
                                                  const PolicyPlace& place);
/// The strategy of that name with its options.
Result<std::unique_ptr<Strategy>> make_named_strategy(const std::string& name, const ModelOptions& options);

}  // namespace lathe::cli
