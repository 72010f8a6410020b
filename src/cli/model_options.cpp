#include "cli/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/http/client.h"
#include "base/process.h"
#include "cli/options.h"
#include "model/engine_client.h"
#include "model/find_model.h"
#include "policy/catalog/catalog.h"
#include "policy/catalog/choice_policy.h"
#include "policy/catalog/schedule_language.h"
#include "policy/local/local.h"
#include "policy/mix.h"
#include "policy/openai/openai.h"
#include "record/json_reader.h"
#include "search/contrast.h"
#include "search/refine.h"

namespace lathe::cli {
namespace {

/// Calls `visit(name, member)` for all that a run keeps. Prices and budgets are numbers, never a
/// key.
template <class Options, class Visit>
void visit_fields(Options& options, Visit visit) {
  visit("endpoint", options.endpoint);
  visit("model", options.model);
  visit("adapter", options.adapter);
  visit("language", options.language);
  visit("engine_device", options.engine_device);
  visit("api_key_env", options.key_variable);
  visit("temperature", options.temperature);
  visit("top_p", options.top_p);
  visit("answer_tokens", options.answer_tokens);
  visit("prompt_tokens", options.prompt_tokens);
  visit("concurrency", options.concurrency);
  visit("request_seconds", options.request_seconds);
  visit("whole_replies", options.whole_replies);
  visit("no_logprobs", options.no_logprobs);
  visit("no_grammar", options.no_grammar);
  visit("prompts", options.prompts);
  visit("token_budget", options.token_budget);
  visit("money_budget", options.money_budget);
  visit("prompt_price", options.prompt_price);
  visit("answer_price", options.answer_price);
  visit("turns", options.turns);
  visit("branches", options.branches);
  visit("history", options.history);
  visit("islands", options.islands);
  visit("exemplars", options.exemplars);
  visit("tau", options.tau);
}

ModelBudget budget_of(const ModelOptions& options) {
  constexpr double kMillion = 1e6;
  return {options.token_budget, options.money_budget, options.prompt_price / kMillion,
          options.answer_price / kMillion};
}

Result<std::unique_ptr<Policy>> make_openai(const ModelOptions& options, const PolicyPlace& place) {
  if (options.money_budget > 0 && options.prompt_price + options.answer_price <= 0)
    return invalid("a budget of money needs prices", "give --prompt-price and --answer-price");
  OpenAiOptions openai;
  openai.endpoint.url = options.endpoint;
  openai.endpoint.key = place.key;
  openai.endpoint.request_seconds = options.request_seconds;
  openai.model = options.model;
  openai.temperature = options.temperature;
  openai.top_p = options.top_p;
  openai.answer_tokens = options.answer_tokens;
  openai.prompt.max_tokens = options.prompt_tokens;
  openai.prompts_folder = options.prompts;
  openai.language = language_of(options);
  openai.budget = budget_of(options);
  openai.spent_tokens = place.spent.tokens;
  openai.spent_usd = place.spent.usd;
  openai.concurrency = options.concurrency;
  openai.stream = !options.whole_replies;
  openai.logprobs = !options.no_logprobs;
  return make_openai_policy(std::move(openai), place.events);
}

Result<std::unique_ptr<Policy>> make_local(const ModelOptions& options, const PolicyPlace& place) {
  LATHE_TRY(const std::string program, find_engine_program());
  LATHE_TRY(const std::string model, find_model(options.model));
  EngineClientOptions engine{.program = program,
                             .arguments = {"--model", model, "--device", options.engine_device}};
  if (!options.adapter.empty())
    engine.arguments.insert(engine.arguments.end(), {"--adapter", options.adapter});
  LocalOptions local;
  local.model = model;
  local.start_engine = [engine] { return start_engine(engine); };
  local.temperature = options.temperature;
  local.top_p = options.top_p;
  local.answer_tokens = options.answer_tokens;
  local.prompt.max_tokens = options.prompt_tokens;
  local.prompts_folder = options.prompts;
  local.language = language_of(options);
  local.budget = budget_of(options);
  local.spent_tokens = place.spent.tokens;
  local.patience_seconds = options.request_seconds;
  if (place.dialect == Dialect::kCpu || options.engine_device != "cpu") local.lane = place.lane;
  return make_local_policy(std::move(local), place.events);
}

/// A file, or all of a folder in the order of their names.
Result<std::vector<ChoiceNet>> read_networks(const std::string& path) {
  std::vector<std::string> files;
  std::error_code code;
  for (std::filesystem::directory_iterator it(path, code), end; !code && it != end; it.increment(code))
    if (it->path().extension() == ".json") files.push_back(it->path().string());
  std::ranges::sort(files);
  if (code) files = {path};
  if (files.empty()) return invalid("'" + path + "' has no weights", "name a file that `lathe train` wrote");
  std::vector<ChoiceNet> nets;
  for (const std::string& file : files) {
    LATHE_TRY(const std::string text, read_file(file));
    auto net = ChoiceNet::from_text(text);
    if (!net.ok()) return invalid(net.error().message, net.error().hint, {file});
    nets.push_back(*std::move(net));
  }
  return nets;
}

}  // namespace

std::shared_ptr<const ActionLanguage> language_of(const ModelOptions& options) {
  return options.language == "schedule" ? make_schedule_language() : kernel_language(!options.no_grammar);
}

std::vector<CLI::Option*> add_model_options(CLI::App& verb, ModelOptions& options) {
  constexpr const char* kGroup = "A language model";
  std::vector<CLI::Option*> kept;
  const auto add = [&](const char* name, auto& member, const char* help) {
    CLI::Option* const option = verb.add_option(name, member, help)->group(kGroup);
    kept.push_back(option);
    return option;
  };
  verb.add_option("--endpoint", options.endpoint,
                  "An OpenAI-compatible API, as far as /v1: http://127.0.0.1:8080/v1")
      ->group(kGroup);
  verb.add_option("--api-key-env", options.key_variable,
                  "The variable with the API key (default: LATHE_API_KEY, else OPENAI_API_KEY)")
      ->group(kGroup);
  verb.add_option("--token-budget", options.token_budget, "Tokens of prompts and answers to spend a task")
      ->check(one_or_more())
      ->group(kGroup);
  verb.add_option("--money-budget", options.money_budget, "USD to spend a task")
      ->check(above_zero())
      ->group(kGroup);
  add("--model", options.model,
      "local: a GGUF file, a folder of safetensors, or the name of a fetched one. openai: the model's name "
      "(default: the only one that the endpoint has)");
  add("--adapter", options.adapter,
      "local: a folder with a LoRA adapter, as lathe-torch train or peft writes");
  add("--engine-device", options.engine_device, "local: where the model computes, a GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  add("--language", options.language,
      "What a model writes: a kernel's whole text, or a schedule of which the catalogue makes one")
      ->check(CLI::IsMember({"kernel", "schedule"}))
      ->capture_default_str();
  add("--temperature", options.temperature, "Of sampling")->check(number(0.0, 10.0))->capture_default_str();
  add("--top-p", options.top_p, "Of sampling")->check(number(0.0, 1.0))->capture_default_str();
  add("--answer-tokens", options.answer_tokens, "At most, of one answer")
      ->check(one_or_more())
      ->capture_default_str();
  add("--prompt-tokens", options.prompt_tokens, "At most, of one prompt; older attempts are left out first")
      ->check(one_or_more())
      ->capture_default_str();
  add("--concurrency", options.concurrency, "Requests under way at once")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  add("--request-seconds", options.request_seconds, "At most, for one request")
      ->check(above_zero())
      ->capture_default_str();
  kept.push_back(verb.add_flag("--no-stream", options.whole_replies, "Ask for whole replies")->group(kGroup));
  kept.push_back(
      verb.add_flag("--no-logprobs", options.no_logprobs, "Do not ask for log-probabilities")->group(kGroup));
  kept.push_back(
      verb.add_flag("--no-grammar", options.no_grammar,
                    "local: let kernels begin with any text, not with front matter alone that can be read")
          ->group(kGroup));
  add("--prompts", options.prompts, "A folder of prompt templates (default: Lathe's own)");
  add("--prompt-price", options.prompt_price, "USD a million prompt tokens")->check(number(0, 1e9));
  add("--answer-price", options.answer_price, "USD a million answer tokens")->check(number(0, 1e9));
  add("--turns", options.turns, "refine: turns of a conversation")
      ->check(one_or_more())
      ->capture_default_str();
  add("--branches", options.branches, "refine: conversations side by side; contrast: samples of a prompt")
      ->check(one_or_more())
      ->capture_default_str();
  add("--history", options.history, "refine: what a turn sees, all turns before it or the best four")
      ->check(CLI::IsMember({"full", "best"}))
      ->capture_default_str();
  add("--islands", options.islands, "contrast: populations")->check(one_or_more())->capture_default_str();
  add("--exemplars", options.exemplars, "contrast: kernels of distinct scores in a prompt")
      ->check(one_or_more())
      ->capture_default_str();
  add("--tau", options.tau, "contrast: temperature of the choice of scores")
      ->check(above_zero())
      ->capture_default_str();
  return kept;
}

nlohmann::json to_json(const ModelOptions& options) {
  nlohmann::json object;
  visit_fields(options, [&](const char* name, const auto& member) { object[name] = member; });
  return object;
}

void read_model_options(JsonReader& reader, ModelOptions& options) {
  const ModelOptions given = options;
  visit_fields(options, [&](const char* name, auto& member) {
    if (reader.has(name)) reader.read(name, member);
  });
  if (!given.endpoint.empty()) options.endpoint = given.endpoint;
  if (!given.key_variable.empty()) options.key_variable = given.key_variable;
  if (given.token_budget > 0) options.token_budget = given.token_budget;
  if (given.money_budget > 0) options.money_budget = given.money_budget;
}

Result<std::string> take_api_key(const ModelOptions& options) {
  if (!options.key_variable.empty()) {
    LATHE_TRY(std::string key,
              http::header_secret(take_variable(options.key_variable.c_str()), options.key_variable));
    if (!key.empty()) return key;
    return invalid(fmt::format("the variable '{}' of --api-key-env is not set", options.key_variable));
  }
  LATHE_TRY(std::string own, http::header_secret(take_variable("LATHE_API_KEY"), "LATHE_API_KEY"));
  LATHE_TRY(std::string common, http::header_secret(take_variable("OPENAI_API_KEY"), "OPENAI_API_KEY"));
  return own.empty() ? std::move(common) : std::move(own);
}

Result<std::unique_ptr<Policy>> make_named_policy(const std::string& name, const ModelOptions& options,
                                                  const PolicyPlace& place) {
  if (name == "catalog") return make_catalog_policy();
  if (name == "choices") {
    LATHE_TRY(std::vector<ChoiceNet> nets, read_networks(options.model));
    return make_choice_policy(std::move(nets));
  }
  const bool local = name == "local" || (name == "mix" && options.endpoint.empty());
  LATHE_TRY(auto model, local ? make_local(options, place) : make_openai(options, place));
  if (name != "mix") return model;
  return make_mixed_policy(make_catalog_policy(), std::move(model));
}

Result<std::unique_ptr<Strategy>> make_named_strategy(const std::string& name, const ModelOptions& options) {
  if (name == "refine")
    return make_refine(
        {.turns = options.turns, .branches = options.branches, .best_of_history = options.history == "best"});
  if (name == "contrast")
    return make_contrast({.exemplars = options.exemplars,
                          .samples = options.branches,
                          .tau = options.tau,
                          .islands = options.islands});
  return make_strategy(name);
}

}  // namespace lathe::cli
