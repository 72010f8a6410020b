// Both languages in a model's hands: for each task the size of its grammar and what building it
// takes. Of schedules, how many that the model samples under it are well-formed and distinct, and
// what the grammar costs a token: answers of one length are drawn with it and without. Of kernels,
// how many have a plan that fits the task, with the grammar and without. Prints rows of a Markdown
// table.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>

#include "candidate/candidate.h"
#include "model/chat_tokens.h"
#include "model/engine_client.h"
#include "policy/catalog/schedule_language.h"
#include "policy/language.h"

namespace {

using namespace lathe;

constexpr std::int32_t kTimedTokens = 32;
constexpr int kTurns = 3;  // of which the fastest counts

template <class T>
T need(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "language_bench: %s\n", result.error().to_string().c_str());
  std::exit(1);
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Options {
  std::string model, engine_device = "cpu";
  std::string language = "schedule";
  std::string adapter;
  bool cuda = false;
  std::vector<std::string> tasks;
  int front_tokens = 256;
  int samples = 64;
  int batch = 16;
  std::uint64_t seed = 1;
};

struct Tally {
  std::int64_t samples = 0, well_formed = 0;
};

void measure(const Options& options, const std::string& path, Engine& engine, const Tokenizer& tokenizer,
             const ChatTemplate* chat, Tally& tally) {
  const PolicyContext context{std::make_shared<const TaskSpec>(need(load_task(path))), {}, {}};
  const auto language = make_schedule_language();
  std::shared_ptr<const TextGrammar> texts;
  std::shared_ptr<const TokenAutomaton> automaton;
  const TokenId end = need(end_of_turn(tokenizer, chat));
  const double build_seconds = seconds_of([&] {
    texts = need(language->grammar(context));
    automaton = need(token_automaton(*texts, tokenizer, end));
  });
  std::size_t arrows = 0;
  for (const auto& state : automaton->states) arrows += state.arrows.size();

  static const Prompter prompter = need(Prompter::load());
  const auto wording = need(language->wording(context));
  const Prompt prompt =
      need(prompter.render({*context.task, context.device, context.peaks, {}, {}, &*wording}, {}));
  std::vector<ChatMessage> messages;
  for (const Message& message : prompt.messages) messages.push_back({message.role, message.content});
  GenerationRequest request{.prompt = need(encode_chat(tokenizer, chat, messages)),
                            .samples = options.samples,
                            .max_tokens = static_cast<std::int32_t>(texts->longest_text().value()) + 1,
                            .sampling = {.seed = options.seed},
                            .grammar = automaton};
  const std::vector<Sample> drawn = need(generate(engine, request));
  std::set<std::string> distinct;
  std::int64_t tokens = 0, well_formed = 0;
  double log_prob = 0;
  for (const Sample& sample : drawn) {
    const std::string text = tokenizer.decode(sample.tokens);
    const auto candidate = language->candidate(context, text);
    if (candidate.ok())
      ++well_formed;
    else
      std::fprintf(stderr, "%s: %s\n%s\n", path.c_str(), candidate.error().to_string().c_str(), text.c_str());
    distinct.insert(text);
    tokens += static_cast<std::int64_t>(sample.tokens.size());
    for (const float each : sample.model_log_probs) log_prob += each;
  }
  const double per_answer = static_cast<double>(tokens) / static_cast<double>(drawn.size());
  // Of equal length with and without the grammar: behind a text's end another one begins.
  const auto endless = std::make_shared<TokenAutomaton>(*automaton);
  endless->states.back() = endless->states.front();
  const auto ms_a_token = [&](std::shared_ptr<const TokenAutomaton> grammar) {
    GenerationRequest long_one = request;
    long_one.grammar = std::move(grammar);
    long_one.ignore_end = true;
    long_one.samples = options.batch;
    long_one.prompt.resize(std::min<std::size_t>(long_one.prompt.size(), kTimedTokens));
    const auto seconds_for = [&](std::int32_t most) {
      long_one.max_tokens = most;
      return seconds_of([&] { need(generate(engine, long_one)); });
    };
    return (seconds_for(kTimedTokens + 1) - seconds_for(1)) / kTimedTokens / options.batch * 1e3;
  };
  double bound_ms = 1e9, free_ms = 1e9;
  for (int i = 0; i < kTurns; ++i) {
    bound_ms = std::min(bound_ms, ms_a_token(endless));
    free_ms = std::min(free_ms, ms_a_token(nullptr));
  }
  fmt::print("| {} | {} | {} | {} | {:.1f} | {} | {} | {} | {:.1f} | {:.2f} | {:.2f} | {:.2f} |\n",
             std::filesystem::path(path).stem().string(), texts->states.size(), automaton->states.size(),
             arrows, build_seconds * 1e3, drawn.size(), well_formed, distinct.size(), per_answer,
             log_prob / static_cast<double>(tokens), bound_ms, free_ms);
  std::fflush(stdout);
  tally.samples += static_cast<std::int64_t>(drawn.size());
  tally.well_formed += well_formed;
}

struct Plans {
  std::int64_t readable = 0, fitting = 0, unfinished = 0;
};

/// Of answers that are cut off after their front matter, what that is.
Plans plans_of(const std::vector<Sample>& samples, const Tokenizer& tokenizer, const TaskSpec& task) {
  Plans plans;
  for (const Sample& sample : samples) {
    const std::string text = candidate_in(tokenizer.decode(sample.tokens));
    if (starts_with_front_matter(text) && text.find("*/") == std::string::npos) {
      ++plans.unfinished;
      continue;
    }
    const auto candidate = parse_candidate(text, "answer");
    const Status fits = candidate.ok() ? check_plan(*candidate, task) : Status(candidate.error());
    plans.readable += candidate.ok();
    plans.fitting += fits.ok();
    if (!fits.ok()) std::fprintf(stderr, "%s: %s\n", task.name.c_str(), fits.error().to_string().c_str());
  }
  return plans;
}

void measure_plans(const Options& options, const std::string& path, Engine& engine,
                   const Tokenizer& tokenizer, const ChatTemplate* chat, Plans& bound, Plans& unbound) {
  PolicyContext context{std::make_shared<const TaskSpec>(need(load_task(path))), {}, {}};
  context.device.dialect = options.cuda ? Dialect::kCuda : Dialect::kCpu;
  const auto language = kernel_language(true);
  std::shared_ptr<const TokenAutomaton> automaton;
  const TokenId end = need(end_of_turn(tokenizer, chat));
  const double build_seconds = seconds_of(
      [&] { automaton = need(token_automaton(*need(language->grammar(context)), tokenizer, end)); });
  std::size_t arrows = 0;
  for (const auto& state : automaton->states) arrows += state.arrows.size();

  static const Prompter prompter = need(Prompter::load());
  const Prompt prompt =
      need(prompter.render({*context.task, context.device, context.peaks, {}, {}, nullptr}, {}));
  std::vector<ChatMessage> messages;
  for (const Message& message : prompt.messages) messages.push_back({message.role, message.content});
  GenerationRequest request{.prompt = need(encode_chat(tokenizer, chat, messages)),
                            .samples = options.samples,
                            .max_tokens = options.front_tokens,
                            .sampling = {.seed = options.seed},
                            .stop_texts = language->stop_texts(),
                            .grammar = automaton};
  const auto draw = [&](Plans& all) {
    const Plans plans = plans_of(need(generate(engine, request)), tokenizer, *context.task);
    all.readable += plans.readable, all.fitting += plans.fitting, all.unfinished += plans.unfinished;
    return plans;
  };
  const Plans with = draw(bound);
  request.grammar = nullptr;
  const Plans without = draw(unbound);
  fmt::print("| {} | {} | {} | {:.0f} | {} | {} | {} | {} | {} | {} | {} |\n",
             std::filesystem::path(path).stem().string(), automaton->states.size(), arrows,
             build_seconds * 1e3, options.samples, with.readable, with.fitting, with.unfinished,
             without.readable, without.fitting, without.unfinished);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app("Languages for kernels in a model's hands");
  app.add_option("--model", options.model, "a GGUF file")->required();
  app.add_option("--adapter", options.adapter, "a folder with a LoRA adapter");
  app.add_option("--language", options.language, "schedule or kernel")->capture_default_str();
  app.add_flag("--cuda", options.cuda, "kernels for a GPU");
  app.add_option("--front-tokens", options.front_tokens, "of a kernel, at most")->capture_default_str();
  app.add_option("--engine-device", options.engine_device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--samples", options.samples, "a task")->capture_default_str();
  app.add_option("--batch", options.batch, "answers at once")->capture_default_str();
  app.add_option("--seed", options.seed, "of the samples")->capture_default_str();
  app.add_option("TASK", options.tasks, "task files")->required();
  CLI11_PARSE(app, count, arguments);
  EngineClientOptions client{.program = need(find_engine_program()),
                             .arguments = {"--model", options.model, "--device", options.engine_device,
                                           "--batch", std::to_string(options.batch)}};
  if (!options.adapter.empty())
    client.arguments.insert(client.arguments.end(), {"--adapter", options.adapter});
  const auto engine = need(start_engine(client));
  const Tokenizer tokenizer = need(Tokenizer::open(options.model));
  const auto chat = ChatTemplate::open(options.model);
  fmt::print("{}, {}, {}, {} at once, temperature 1\n\n", engine->info().model, engine->info().device,
             engine->info().precision, options.batch);
  if (options.language == "kernel") {
    fmt::print(
        "| task | token states | arrows | ms to build | samples | readable | fitting | not finished | "
        "free: readable | fitting | not finished |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    Plans bound, unbound;
    for (const std::string& task : options.tasks)
      measure_plans(options, task, *engine, tokenizer, chat.ok() ? &*chat : nullptr, bound, unbound);
    fmt::print("\nof {} each: {} fit their task under the grammar, {} without\n",
               options.samples * options.tasks.size(), bound.fitting, unbound.fitting);
    return 0;
  }
  fmt::print(
      "| task | text states | token states | arrows | ms to build | samples | well-formed | distinct | "
      "tokens "
      "each | model's log p a token | ms a token | ms without grammar |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  Tally tally;
  for (const std::string& task : options.tasks)
    measure(options, task, *engine, tokenizer, chat.ok() ? &*chat : nullptr, tally);
  fmt::print("\n{} of {} samples are well-formed\n", tally.well_formed, tally.samples);
  return tally.well_formed == tally.samples ? 0 : 1;
}
